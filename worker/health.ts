// The worker's HTTP server for an orchestrator and Prometheus: alive, ready, age of the oldest waiting wake, metrics.

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';

export interface HealthReport {
  readonly ready: boolean;
  readonly warnings: readonly string[];
  readonly details: Record<string, unknown>;
}

export interface HealthServer {
  readonly port: number;
  stop(): Promise<void>;
}

/** Serves `/healthz` (the process answers), `/readyz` (200 or 503 with the report) and `/metrics` (Prometheus). */
export async function startHealthServer(
  at: { host: string; port: number },
  report: () => Promise<HealthReport>,
  metrics: Registry,
): Promise<HealthServer> {
  const server: Server = createServer((request, response) => {
    const send = (status: number, body: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
      response.end(JSON.stringify(body));
    };
    if (request.method !== 'GET') return send(405, { error: 'method not allowed' });
    if (request.url === '/healthz') return send(200, { alive: true });
    if (request.url === '/metrics') {
      metrics.metrics().then(
        (text) => response.writeHead(200, { 'content-type': metrics.contentType }).end(text),
        // Postgres can't be reached, so the backlog can't be read.
        () => send(503, { error: 'the metrics could not be read' }),
      );
      return;
    }
    if (request.url !== '/readyz') return send(404, { error: 'not found' });
    report().then(
      (health) => send(health.ready ? 200 : 503, health),
      () => send(503, { ready: false, warnings: ['the worker could not check its state'], details: {} }),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(at.port, at.host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
