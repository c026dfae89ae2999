// Fields of answers that are shown once: in the first answer, and never in what is kept of it.

import { z } from 'zod';

const secrets = new WeakSet<z.ZodType>();

/** A secret in an answer. Null when the answer is repeated. */
export function shownOnce(description: string) {
  const schema = z
    .string()
    .nullable()
    .meta({ description: `${description} Shown once: null in a repeated answer.` });
  secrets.add(schema);
  return schema;
}

/** The answer with null for each of its secrets. */
export function withoutSecrets(schema: z.ZodType, answer: unknown): unknown {
  if (secrets.has(schema)) return null;
  if (!(schema instanceof z.ZodObject) || typeof answer !== 'object' || answer === null) return answer;
  const shape = schema.shape as Readonly<Record<string, z.ZodType>>;
  return Object.fromEntries(
    Object.entries(answer).map(([name, value]) => {
      const field = shape[name];
      return [name, field === undefined ? value : withoutSecrets(field, value)];
    }),
  );
}
