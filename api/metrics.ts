// Prometheus metrics of the API's requests and writes. They have a port of their own; the API's port has no /metrics.

import { createServer, type Server } from 'node:http';
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import { countStore } from '../worker/telemetry/store-metrics';
import type { OnRequest, RequestReport } from './middleware/request-reports';

export interface ApiMetrics {
  readonly onRequest: OnRequest;
  /** Creates the server of `/metrics`, which serves no other path. The caller listens and closes. */
  serve(): Server;
}

/** Up to 10 s: a person waits for the answer, so a longer request counts as failed. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** A closed set of labels, because a client may send any word as the method. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS']);

export function createApiMetrics(): ApiMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  countStore(registry);
  const requests = new Histogram({
    name: 'durable_room_http_request_seconds',
    help: 'Duration of requests by method, route template and status. Status 0: the client disconnected.',
    labelNames: ['method', 'route', 'status'],
    buckets: SECONDS,
    registers: [registry],
  });
  return {
    onRequest: (report) => requests.observe(labelsOf(report), report.seconds),
    serve: () =>
      createServer((request, response) => {
        if (request.method !== 'GET' || request.url !== '/metrics') {
          response.writeHead(404).end();
          return;
        }
        registry.metrics().then(
          (text) => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
          () => response.writeHead(500).end(),
        );
      }),
  };
}

function labelsOf({ method, route, status }: RequestReport): Record<'method' | 'route' | 'status', string> {
  return {
    method: METHODS.has(method) ? method : 'other',
    route: route ?? 'none',
    status: String(status ?? 0),
  };
}
