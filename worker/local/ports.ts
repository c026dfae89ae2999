// TCP ports on 127.0.0.1. An answer may be outdated a moment later: only the server that binds the port knows for sure.
import { createServer } from 'node:net';

import { EmbeddedStartError, reasonOf, systemErrorCode } from './start-error';

export const LOOPBACK = '127.0.0.1';

/** A port that was free a moment ago. */
export async function pickFreePort(): Promise<number> {
  return await listenOnce(0);
}

/** Whether something listens on the port at this moment. */
export async function isPortTaken(port: number): Promise<boolean> {
  try {
    await listenOnce(port);
    return false;
  } catch (error) {
    if (systemErrorCode(error) === 'EADDRINUSE') return true;
    throw new EmbeddedStartError(`Port ${port} on ${LOOPBACK} can't be used: ${reasonOf(error)}`, { cause: error });
  }
}

/** Throws if the port is taken, with its purpose and how to choose another. */
export async function ensurePortFree(port: number, purpose: string): Promise<void> {
  if (!(await isPortTaken(port))) return;
  throw new EmbeddedStartError(
    `Port ${port} on ${LOOPBACK}, asked for as ${purpose}, is taken by another program. ` +
      `Choose another port, or set none to use any free one.`,
  );
}

async function listenOnce(port: number): Promise<number> {
  const server = createServer();
  return await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host: LOOPBACK, exclusive: true }, () => {
      const address = server.address();
      server.close(() => {
        if (address === null || typeof address === 'string') reject(new Error('a TCP server has a port'));
        else resolve(address.port);
      });
    });
  });
}
