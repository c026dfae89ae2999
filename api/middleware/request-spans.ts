// One trace span per request, the parent of what the request causes. It has the route's template, never the path or
// body.

import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { RequestHandler } from 'express';
import { localsOf } from './request-log';

/** Starts a span for each request. It continues the trace of a `traceparent` header, if the client sent one. */
export function traceRequests(): RequestHandler {
  const tracer = trace.getTracer('durable-room');
  return (req, res, next) => {
    const parent = propagation.extract(context.active(), { traceparent: req.get('traceparent') });
    const span = tracer.startSpan(req.method, { kind: SpanKind.SERVER }, parent);
    span.setAttributes({ 'http.request.method': req.method, 'durable_room.request': localsOf(res).requestId });
    res.once('close', () => {
      const route: unknown = (req.route as { path?: unknown } | undefined)?.path;
      if (typeof route === 'string') {
        span.updateName(`${req.method} ${route}`);
        span.setAttribute('http.route', route);
      }
      span.setAttribute('http.response.status_code', res.statusCode);
      if (res.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    });
    context.with(trace.setSpan(parent, span), next);
  };
}
