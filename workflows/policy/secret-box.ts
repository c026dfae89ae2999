// Seals model keys for storage: AES-256-GCM, bound to their use, under master keys that can be rotated. No error of
// this file holds a secret, a sealed text or a master key.

import crypto from 'node:crypto';

export interface MasterKey {
  readonly id: string;
  readonly key: Buffer;
}

export interface SecretBox {
  /** Seals a text under the first master key, for this binding only. Two seals of the same text differ. */
  seal(plain: string, boundTo: string): string;
  /**
   * The text that was sealed for this binding.
   * @throws SecretBoxError for another binding, a changed text or a missing key
   */
  open(sealed: string, boundTo: string): string;
  /** The id of the master key of a sealed text. Rotation reseals every text that is not under the first key. */
  keyIdOf(sealed: string): string;
}

export class SecretBoxError extends Error {
  override readonly name = 'SecretBoxError';
}

const VERSION = 'v1';
const ALGORITHM = 'aes-256-gcm';
const KEY_BYTES = 32;
/** 96 bits, GCM's own nonce length: random nonces are safe for far more seals than a deployment makes. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** Without ".", which separates the parts of a sealed text. */
const KEY_ID = /^[A-Za-z0-9_-]{1,32}$/;

/** A box that seals under the first of these keys and opens texts under all of them. */
export function createSecretBox(keys: readonly MasterKey[]): SecretBox {
  const [sealing] = keys;
  if (sealing === undefined) throw new SecretBoxError('there is no master key');
  const byId = new Map<string, Buffer>();
  for (const { id, key } of keys) {
    if (!KEY_ID.test(id)) throw new SecretBoxError('a master key id is not 1 to 32 letters, digits, "_" or "-"');
    if (key.length !== KEY_BYTES) throw new SecretBoxError('a master key is not 32 bytes');
    if (byId.has(id)) throw new SecretBoxError('two master keys have one id');
    byId.set(id, key);
  }

  return {
    seal(plain, boundTo) {
      const nonce = crypto.randomBytes(NONCE_BYTES);
      const cipher = crypto.createCipheriv(ALGORITHM, sealing.key, nonce, { authTagLength: TAG_BYTES });
      cipher.setAAD(authenticated(sealing.id, boundTo));
      const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()]);
      return [VERSION, sealing.id, nonce.toString('base64url'), body.toString('base64url')].join('.');
    },

    open(sealed, boundTo) {
      const { keyId, nonce, body } = parseSealed(sealed);
      const key = byId.get(keyId);
      if (key === undefined) throw new SecretBoxError('the master key this was sealed under is not configured');
      const decipher = crypto.createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
      decipher.setAAD(authenticated(keyId, boundTo));
      decipher.setAuthTag(body.subarray(-TAG_BYTES));
      try {
        return decipher.update(body.subarray(0, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
      } catch {
        throw new SecretBoxError('this was not sealed under that master key for this use, or it was changed');
      }
    },

    keyIdOf: (sealed) => parseSealed(sealed).keyId,
  };
}

/** The start of every text that is sealed under this master key, and of no other text. */
export function sealedPrefix(masterKeyId: string): string {
  return `${VERSION}.${masterKeyId}.`;
}

/** The data that the tag covers beside the secret: a sealed text is invalid under another binding or key id. */
function authenticated(keyId: string, boundTo: string): Buffer {
  return Buffer.from([VERSION, keyId, boundTo].join('.'), 'utf8');
}

function parseSealed(sealed: string): { keyId: string; nonce: Buffer; body: Buffer } {
  const [version, keyId = '', nonceText = '', bodyText = '', ...rest] = sealed.split('.');
  const [nonce, body] = [decode(nonceText, 'base64url'), decode(bodyText, 'base64url')];
  const isSealed = version === VERSION && KEY_ID.test(keyId) && rest.length === 0;
  if (!isSealed || nonce?.length !== NONCE_BYTES || body === null || body.length < TAG_BYTES) {
    throw new SecretBoxError('this is not a sealed text');
  }
  return { keyId, nonce, body };
}

/**
 * Parses the configured master keys, `id:base64,id2:base64`, of 32 bytes each. The first key seals.
 * @throws SecretBoxError that names an entry by its number, because an id may be a key that was pasted without its id
 */
export function parseMasterKeys(configured: string): MasterKey[] {
  if (configured.trim() === '') throw new SecretBoxError('master keys: none given, expected "id:base64"');
  const seen = new Set<string>();
  return configured.split(',').map((entry, index) => {
    const entryName = `master keys, entry ${index + 1}`;
    const colon = entry.indexOf(':');
    if (colon < 0) throw new SecretBoxError(`${entryName}: expected "id:base64"`);
    const id = entry.slice(0, colon).trim();
    if (!KEY_ID.test(id)) throw new SecretBoxError(`${entryName}: the id is not 1 to 32 letters, digits, "_" or "-"`);
    if (seen.has(id)) throw new SecretBoxError(`${entryName}: its id was used before`);
    seen.add(id);
    const text = entry.slice(colon + 1).trim();
    const key = decode(text, 'base64') ?? decode(text, 'base64url');
    if (key === null) throw new SecretBoxError(`${entryName}: the key is not base64`);
    if (key.length !== KEY_BYTES) {
      throw new SecretBoxError(
        `${entryName}: the key is ${key.length} bytes, not ${KEY_BYTES} (openssl rand -base64 32)`,
      );
    }
    return { id, key };
  });
}

/**
 * Null unless encoding the bytes gives the same text, except for padding: Buffer skips characters that it cannot read.
 */
function decode(text: string, encoding: 'base64' | 'base64url'): Buffer | null {
  const bytes = Buffer.from(text, encoding);
  const bare = (encoded: string): string => encoded.replace(/={1,2}$/, '');
  return bare(bytes.toString(encoding)) === bare(text) ? bytes : null;
}
