// Chooses ports for processes that get a fixed port. They are below the ephemeral ports of the system (from 32768 on Linux,
// from 49152 elsewhere), so that no connection of another test takes one before the process listens.

import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

const [FIRST, LAST] = [20_000, 32_000];

/** Different ports of the loopback address on which no process listened at the time of the check. */
export async function freePorts(count: number): Promise<number[]> {
  const found = new Set<number>();
  while (found.size < count) {
    const port = randomInt(FIRST, LAST);
    if (await isFree(port)) found.add(port);
  }
  return [...found];
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const listens = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => resolve(true));
  });
  if (listens) await new Promise((resolve) => server.close(resolve));
  return listens;
}
