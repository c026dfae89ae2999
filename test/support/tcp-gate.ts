// A way between a client and a server that can fall silent, as a network does when a host vanishes: no reset, no end.

import net from 'node:net';

export interface TcpGate {
  readonly port: number;
  /** From now on nothing passes and nothing is answered; new connections are accepted, by nobody. */
  fallSilent(): void;
  /** New connections pass again. Those that fell silent stay so. */
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
