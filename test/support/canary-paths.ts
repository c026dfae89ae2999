// Every answer with which a provider can fail a request and repeat the key of the request, by the name of the requested
// model.

import { answer, type ScriptedAnswer } from './scripted-answers';

const json = (key: string) => ({ error: { message: `bad key ${key}`, type: key, code: key, param: key }, key });
const headers = (key: string) => ({
  'x-api-key': encodeURIComponent(key),
  'www-authenticate': `Bearer realm="${Buffer.from(key).toString('base64')}"`,
  'x-request-id': Buffer.from(key).toString('hex'),
});
const page = (key: string) => `<!doctype html><title>${key}</title><p>${encodeURIComponent(key)}</p>`;

export const CANARY_PATHS: Readonly<Record<string, (key: string) => ScriptedAnswer>> = {
  'refused-401': (key) => answer.json(401, json(key), headers(key)),
  'refused-403-text': (key) => answer.raw(403, `your key is ${key}`, { 'content-type': 'text/plain' }),
  'unknown-model-404': (key) => answer.json(404, { error: { message: key, code: 'model_not_found' } }, headers(key)),
  'malformed-400': (key) => answer.json(400, json(key)),
  'rate-limit-429': (key) => answer.json(429, json(key), { ...headers(key), 'retry-after': '60' }),
  'failing-500-page': (key) => answer.html(500, page(key)),
  'page-200': (key) => answer.html(200, page(key)),
  'error-200': (key) => answer.json(200, json(key)),
  redirect: (key) => answer.redirect(`http://127.0.0.1:9/?key=${encodeURIComponent(key)}`),
  'redirect-to-login': (key) =>
    answer.raw(302, page(key), { location: `https://example.com/${encodeURIComponent(key)}` }),
  'reset-at-once': () => answer.resetAtOnce(),
  'reset-mid-body': (key) => answer.with(answer.json(200, json(key)), { delivery: { how: 'reset_mid_body' } }),
  'short-body': (key) => answer.with(answer.json(200, json(key)), { delivery: { how: 'short_body' } }),
  'truncated-json': (key) => answer.truncatedJson(`${key} ${key} ${key} ${key}`),
  'headers-only': (key) => answer.with(answer.headersOnly(), { headers: headers(key) }),
  'bad-packing': (key) => answer.raw(200, page(key), { 'content-encoding': 'gzip' }),
  'broken-reply': (key) => answer.reply(JSON.stringify({ reply: 7, memory: key })),
  'cut-off-reply': (key) => answer.reply(key, { finishReason: 'length' }),
  'filtered-reply': (key) => answer.reply(key, { finishReason: 'content_filter' }),
  'odd-finish': (key) => answer.message({ content: '' }, { finishReason: key, usage: { prompt_tokens: key } }),
  // The database refuses to record this answer; see the test.
  unrecordable: (key) => answer.json(418, json(key), headers(key)),
};
