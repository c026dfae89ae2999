// OpenTelemetry's SDK for one process. Loaded only where somebody wants spans (`wantsTracing`); everything else goes by
// OpenTelemetry's own small API, which does nothing until this is started.

import { envDetectorSync, Resource } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider, type SpanProcessor } from '@opentelemetry/sdk-trace-node';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';

export interface Tracing {
  readonly processor: SpanProcessor;
  readonly resource: Resource;
  /** Sends what is still here and stops. */
  stop(): Promise<void>;
}

/**
 * Sends this process's spans over OTLP/HTTP to where OTEL_EXPORTER_OTLP_ENDPOINT says, under OTEL_SERVICE_NAME or the
 * given name. Headers, sampling, batching: OpenTelemetry's own variables, read by its SDK.
 */
export function startTracing(serviceName: string): Tracing {
  const resource = new Resource({ 'service.name': serviceName }).merge(envDetectorSync.detect());
  const processor = new BatchSpanProcessor(new OTLPTraceExporter());
  const provider = new NodeTracerProvider({ resource, spanProcessors: [processor] });
  provider.register();
  return { processor, resource, stop: () => provider.shutdown() };
}
