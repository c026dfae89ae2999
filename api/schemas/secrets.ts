// Secret fields of answers. The first answer shows them; the stored answer has null.

import { z } from 'zod';

const secrets = z.registry<Record<string, never>>();

/** The schema of a secret in an answer. It is null in a repeated answer. */
export function shownOnce(description: string) {
  const schema = z
    .string()
    .nullable()
    .meta({ description: `${description} Shown only once: null in a repeated answer.` });
  secrets.add(schema, {});
  return schema;
}

/** Replaces each secret in an answer with null. */
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
