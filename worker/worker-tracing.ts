// Spans of a worker process: Temporal's own interceptors for starts, workflows and activities. Loaded only when the
// environment asks for spans, because it loads OpenTelemetry's SDK.

import { Client } from '@temporalio/client';
import { OpenTelemetryWorkflowClientInterceptor } from '@temporalio/interceptors-opentelemetry/lib/client';
import {
  makeWorkflowExporter,
  OpenTelemetryActivityInboundInterceptor,
  OpenTelemetryActivityOutboundInterceptor,
} from '@temporalio/interceptors-opentelemetry/lib/worker';
import type { ActivityInterceptorsFactory, WorkerOptions } from '@temporalio/worker';
import { startTracing } from './telemetry/tracing';
import type { Temporal } from './connections';

export interface WorkerTracing {
  readonly traceActivity: ActivityInterceptorsFactory;
  readonly sinks: NonNullable<WorkerOptions['sinks']>;
  /** A client like the given one whose starts are spans and carry their trace. */
  traceClient(client: Client, native: Temporal['native']): Client;
  stop(): Promise<void>;
}

export function startWorkerTracing(): WorkerTracing {
  const tracing = startTracing('durable-room-worker');
  return {
    traceActivity: (ctx) => ({
      inbound: new OpenTelemetryActivityInboundInterceptor(ctx),
      outbound: new OpenTelemetryActivityOutboundInterceptor(ctx),
    }),
    // Exports the spans of the interceptors in the sandbox, which are part of the traced workflow bundle.
    sinks: { exporter: makeWorkflowExporter(tracing.processor, tracing.resource) },
    traceClient: (client, native) =>
      new Client({
        ...client.options,
        connection: native,
        interceptors: { workflow: [new OpenTelemetryWorkflowClientInterceptor()] },
      }),
    stop: () => tracing.stop(),
  };
}
