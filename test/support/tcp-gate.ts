// A TCP proxy that can stop passing bytes without a reset or an end, like a network whose host is lost.

import net from 'node:net';

export interface TcpGate {
  readonly port: number;
  /** Stops passing bytes. New connections are accepted and get no answer. */
  fallSilent(): void;
  /** Passes new connections again. The silent connections stay silent. */
  open(): void;
  close(): Promise<void>;
}

export async function openTcpGate(targetPort: number): Promise<TcpGate> {
  let silent = false;
  const sockets = new Set<net.Socket>();
  const server = net.createServer((client) => {
    const upstream = net.connect(targetPort, '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
    }
    if (silent) return;
    client.pipe(upstream);
    upstream.pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as net.AddressInfo).port,
    fallSilent: () => {
      silent = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
    open: () => {
      silent = false;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
