// Whether the environment asks for spans, by OpenTelemetry's own variables. Loads no SDK.

/** True if an OTLP endpoint is set and neither the SDK nor the trace exporter is switched off. */
export function wantsTracing(env: Readonly<Record<string, string | undefined>>): boolean {
  if (env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none') return false;
  return Boolean(env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] || env['OTEL_EXPORTER_OTLP_ENDPOINT']);
}
