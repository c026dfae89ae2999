// Model keys: a company's secret at a provider, sealed and bound to its address.

/** What a sealed secret is bound to: this key at this address. Another address needs the secret again. */
export function modelKeyBinding(modelKeyId: string, baseUrl: string): string {
  return `${modelKeyId}|${baseUrl}`;
}
