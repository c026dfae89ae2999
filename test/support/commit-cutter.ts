// A TCP proxy between a worker and Postgres that breaks a connection at a COMMIT: before Postgres receives it, or after it
// is done and before the worker receives the answer. The worker can't distinguish the two. It can also refuse all connections.

import net from 'node:net';

export type Cut = 'before_commit' | 'after_commit';

export interface CommitCutter {
  /** The port to connect to instead of Postgres. */
  readonly port: number;
  /** Breaks one connection at its next COMMIT. `clientPort` is the result of `inet_client_port()` in that connection. */
  cutAtCommit(clientPort: number, cut: Cut): void;
  /** The number of connections that were broken at a COMMIT. */
  readonly cuts: number;
  /** With true: breaks all open connections and every new one, until it is called with false. */
  refuse(isRefusing: boolean): void;
  close(): Promise<void>;
}

export async function openCommitCutter(postgresPort: number): Promise<CommitCutter> {
  const armed = new Map<number, Cut>();
  const sockets = new Set<net.Socket>();
  let cuts = 0;
  let isRefusing = false;
  const server = net.createServer((client) => {
    if (isRefusing) return void client.on('error', () => undefined).resetAndDestroy();
    const upstream = net.connect(postgresPort, '127.0.0.1');
    let isCommitting = false;
    const breakOff = (): void => {
      cuts += 1;
      client.resetAndDestroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', (bytes) => {
      const cut = bytes.includes('COMMIT') ? armed.get(upstream.localPort ?? 0) : undefined;
      if (cut === undefined) return void upstream.write(bytes);
      armed.delete(upstream.localPort ?? 0);
      if (cut === 'before_commit') return breakOff();
      isCommitting = true;
      upstream.write(bytes);
    });
    upstream.on('data', (bytes) => {
      // Answers to earlier statements arrive first and are passed on.
      if (isCommitting && bytes.includes('COMMIT\0')) return breakOff();
      client.write(bytes);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as net.AddressInfo).port,
    cutAtCommit: (clientPort, cut) => void armed.set(clientPort, cut),
    get cuts() {
      return cuts;
    },
    refuse: (refusing) => {
      isRefusing = refusing;
      if (refusing) for (const socket of sockets) socket.destroy();
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
