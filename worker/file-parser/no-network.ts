// Takes network access away from the thread that parses a file.

import { Socket } from 'node:net';

/** Makes Socket.connect throw: every TCP, TLS and HTTP connection of Node, and `fetch`, begins with it. */
export function forbidNetwork(): void {
  Socket.prototype.connect = () => {
    throw new Error('the parser has no network');
  };
}
