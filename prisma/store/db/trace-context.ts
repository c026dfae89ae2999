// The trace of the present work, which a wake's row carries to the dispatcher. OpenTelemetry's API does nothing until a
// process starts its SDK; without the SDK there is no trace, and the row holds null.

import { context, propagation } from '@opentelemetry/api';

/** W3C `traceparent` of the active span, or null without tracing. */
export function currentTraceparent(): string | null {
  const carrier: { traceparent?: string } = {};
  propagation.inject(context.active(), carrier);
  return carrier.traceparent ?? null;
}
