// What a worker that has been at work for a while has behind it: its database client compiled, its model client loaded. A
// spare does it before it stands by, so that its first attempt takes as long as any other.

import { requestReply, writeRequest } from '../../activities/model/provider';
import { connectDatabase } from '../../prisma/client';

/** Nobody listens there: the request is made and refused. */
const NOWHERE = 'http://127.0.0.1:9/v1';

export async function warmUp(databaseUrl: string): Promise<void> {
  const database = await connectDatabase(databaseUrl, {
    poolSize: 2,
    lockTimeoutMs: 5_000,
    statementTimeoutMs: 10_000,
    transactionTimeoutMs: 15_000,
    applicationName: 'durable-room-lab-warm-up',
  });
  try {
    for (let n = 0; n < 3; n += 1) {
      await database.prisma.$transaction((tx) => tx.$queryRaw`SELECT count(*)::int FROM rooms WHERE id = ${String(n)}`);
    }
  } finally {
    await database.close();
  }
  const endpoint = {
    protocol: 'openai_compatible',
    baseUrl: NOWHERE,
    model: 'scripted',
    ownerSupplied: false,
  } as const;
  const prompt = { system: 'Be brief.', user: 'hi' };
  const options = { signal: new AbortController().signal, timeoutMs: 1_000 };
  await requestReply(writeRequest(endpoint, prompt), 'sk-lab', options);
}
