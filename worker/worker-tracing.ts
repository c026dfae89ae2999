// Spans of a worker process: Temporal's own interceptors for starts, workflows and activities. Loaded only where the
// environment asks for spans; it brings OpenTelemetry's SDK with it.

import { Client } from '@temporalio/client';
import { OpenTelemetryWorkflowClientInterceptor } from '@temporalio/interceptors-opentelemetry/lib/client';
import {
  makeWorkflowExporter,
  OpenTelemetryActivityInboundInterceptor,
  OpenTelemetryActivityOutboundInterceptor,
} from '@temporalio/interceptors-opentelemetry/lib/worker';
import type { WorkerOptions } from '@temporalio/worker';
import { startTracing } from './telemetry/tracing';
import type { Temporal } from './connections';

export interface WorkerTracing {
  readonly worker: Pick<WorkerOptions, 'interceptors' | 'sinks'>;
  /** A client like this one, whose starts are spans and hand their trace on. */
  traceClient(client: Client, native: Temporal['native']): Client;
  stop(): Promise<void>;
}

export function startWorkerTracing(): WorkerTracing {
  const tracing = startTracing('durable-room-worker');
  return {
    worker: {
      interceptors: {
        activity: [
          (ctx) => ({
            inbound: new OpenTelemetryActivityInboundInterceptor(ctx),
            outbound: new OpenTelemetryActivityOutboundInterceptor(ctx),
          }),
        ],
      },
      // What the interceptors inside the sandbox recorded; they are in the traced workflow bundle.
      sinks: { exporter: makeWorkflowExporter(tracing.processor, tracing.resource) },
    },
    traceClient: (client, native) =>
      new Client({
        ...client.options,
        connection: native,
        interceptors: { workflow: [new OpenTelemetryWorkflowClientInterceptor()] },
      }),
    stop: () => tracing.stop(),
  };
}
