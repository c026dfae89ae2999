// Warms up a spare worker: uses its database client and its model client once, so that its first attempt is not slower than
// later ones.

import { requestReply, writeRequest } from '../../activities/model/provider';
import { connectDatabase } from '../../prisma/client';

/** No server listens on this port, so the request fails. */
const UNREACHABLE_URL = 'http://127.0.0.1:9/v1';

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
    baseUrl: UNREACHABLE_URL,
    model: 'scripted',
    ownerSupplied: false,
  } as const;
  const prompt = { system: 'Be brief.', user: 'hi' };
  const options = { signal: new AbortController().signal, timeoutMs: 1_000 };
  await requestReply(writeRequest(endpoint, prompt), 'sk-lab', options);
}
