// A data converter for TEMPORAL_DATA_CONVERTER: encrypts every payload, and puts the messages of failures into payloads.
// Only for tests: its key is not a secret.

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';

const KEY = createHash('sha256').update('a key of this test').digest();
const ENCODING = Buffer.from('binary/encrypted');

const codec: PayloadCodec = {
  encode: async (payloads) => payloads.map(encrypt),
  decode: async (payloads) => payloads.map(decrypt),
};

function encrypt(payload: Payload): Payload {
  const metadata = Object.entries(payload.metadata ?? {}).map(([name, value]) => [name, toBase64(value)]);
  const plain = JSON.stringify({ metadata, data: toBase64(payload.data ?? new Uint8Array()) });
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', KEY, nonce);
  const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
  return { metadata: { encoding: ENCODING }, data: Buffer.concat([nonce, cipher.getAuthTag(), sealed]) };
}

function decrypt(payload: Payload): Payload {
  const encoding = Buffer.from(payload.metadata?.['encoding'] ?? []);
  if (!encoding.equals(ENCODING)) return payload;
  const bytes = Buffer.from(payload.data ?? []);
  const decipher = createDecipheriv('aes-256-gcm', KEY, bytes.subarray(0, 12));
  decipher.setAuthTag(bytes.subarray(12, 28));
  const plain = Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8');
  const { metadata, data } = JSON.parse(plain) as { metadata: [string, string][]; data: string };
  return {
    metadata: Object.fromEntries(metadata.map(([name, value]) => [name, Buffer.from(value, 'base64')])),
    data: Buffer.from(data, 'base64'),
  };
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}

export const payloadCodecs = [codec];
export const failureConverterPath = require.resolve('./encrypting-failures');
