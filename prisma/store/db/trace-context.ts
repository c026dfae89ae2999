// The trace that the present work belongs to, as a wake's row carries it to the dispatcher. OpenTelemetry's API is a
// few functions that do nothing until a process starts its SDK: without one there is no trace, and the row holds none.

import { context, propagation } from '@opentelemetry/api';

/** W3C `traceparent` of the active span, or null where nobody traces. */
export function currentTraceparent(): string | null {
  const carrier: { traceparent?: string } = {};
  propagation.inject(context.active(), carrier);
  return carrier.traceparent ?? null;
}
