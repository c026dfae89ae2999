// Creates certificates at run time, so that the repository holds no key and no tool is needed.

import crypto from 'node:crypto';

/** A new private key and a self-signed certificate for this name, valid from 2000 to 2049. */
export function createSelfSigned(commonName: string): { key: string; cert: string } {
  const { publicKey, privateKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: encodeCertificate({
      issuer: commonName,
      subject: commonName,
      serial: 1,
      publicKey,
      signWith: privateKey,
      extensions: [],
    }),
  };
}

export interface CertificateContent {
  readonly issuer: string;
  readonly subject: string;
  /** From 1 to 127. */
  readonly serial: number;
  readonly publicKey: crypto.KeyObject;
  readonly signWith: crypto.KeyObject;
  /** Encoded extensions. If there is one, the certificate has version 3. */
  readonly extensions: readonly Buffer[];
}

/** A certificate as PEM. */
export function encodeCertificate(content: CertificateContent): string {
  const validity = sequence(der(0x17, Buffer.from('000101000000Z')), der(0x17, Buffer.from('491231235959Z')));
  const hasExtensions = content.extensions.length > 0;
  const toBeSigned = sequence(
    ...(hasExtensions ? [der(0xa0, der(0x02, Buffer.of(2)))] : []),
    der(0x02, Buffer.of(content.serial)),
    ECDSA_WITH_SHA256,
    nameOf(content.issuer),
    validity,
    nameOf(content.subject),
    content.publicKey.export({ type: 'spki', format: 'der' }),
    ...(hasExtensions ? [der(0xa3, sequence(...content.extensions))] : []),
  );
  const signature = crypto.sign('sha256', toBeSigned, content.signWith);
  const certificate = sequence(toBeSigned, ECDSA_WITH_SHA256, der(0x03, Buffer.concat([Buffer.of(0), signature])));
  // No empty line, even if the last line is full: OpenSSL misreads the text after an empty line.
  const lines = (certificate.toString('base64').match(/.{1,64}/g) ?? []).join('\n');
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

// The object identifiers 2.5.4.3 and 1.2.840.10045.4.3.2.
const COMMON_NAME = objectId('550403');
const ECDSA_WITH_SHA256 = sequence(objectId('2a8648ce3d040302'));

function nameOf(commonName: string): Buffer {
  return sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(commonName, 'utf8')))));
}

/** An object identifier, from its encoded content. */
export function objectId(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'));
}

export function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts));
}

/** One element in the DER encoding of ASN.1: tag, length, content. */
export function der(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...size), content]);
}
