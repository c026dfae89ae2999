// No way out of the thread that reads a file.

import { Socket } from 'node:net';

/** Every TCP, TLS and HTTP connection of Node, and `fetch`, begins with this. */
export function forbidNetwork(): void {
  Socket.prototype.connect = () => {
    throw new Error('the parser has no network');
  };
}
