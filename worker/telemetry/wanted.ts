// Whether this process's environment asks for spans, in OpenTelemetry's own words. Decides; loads nothing.

/** True where an OTLP endpoint is named, and neither the SDK nor the exporter of traces is switched off. */
export function wantsTracing(env: Readonly<Record<string, string | undefined>>): boolean {
  if (env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none') return false;
  return Boolean(env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] || env['OTEL_EXPORTER_OTLP_ENDPOINT']);
}
