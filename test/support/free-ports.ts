// Ports for processes that are told theirs. Below those that the system gives out by itself (32768 and up on Linux, 49152
// elsewhere), so that none is taken by a connection of another test before its process listens.

import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

const [FIRST, LAST] = [20_000, 32_000];

/** Ports of the loopback address on which nothing listened a moment ago, all different. */
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
