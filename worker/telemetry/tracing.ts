// OpenTelemetry's SDK for one process, loaded only if spans are wanted (`wantsTracing`). All other code uses OpenTelemetry's
// small API, which does nothing until this is started.

import { envDetectorSync, Resource } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider, type SpanProcessor } from '@opentelemetry/sdk-trace-node';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';

export interface Tracing {
  readonly processor: SpanProcessor;
  readonly resource: Resource;
  /** Sends the remaining spans and stops. */
  stop(): Promise<void>;
}

/**
 * Sends this process's spans over OTLP/HTTP to OTEL_EXPORTER_OTLP_ENDPOINT, under OTEL_SERVICE_NAME or the given name. The SDK
 * itself reads OpenTelemetry's variables for headers, sampling and batching.
 */
export function startTracing(serviceName: string): Tracing {
  const resource = new Resource({ 'service.name': serviceName }).merge(envDetectorSync.detect());
  const processor = new BatchSpanProcessor(new OTLPTraceExporter());
  const provider = new NodeTracerProvider({ resource, spanProcessors: [processor] });
  provider.register();
  return { processor, resource, stop: () => provider.shutdown() };
}
