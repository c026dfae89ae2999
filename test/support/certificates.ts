// A certificate authority for one test, and its certificates. They are created at run time, so the repository holds no key
// and no tool is needed.

import crypto from 'node:crypto';
import { der, encodeCertificate, objectId, sequence } from './self-signed';

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

export interface CertificateAuthority {
  readonly cert: string;
  /** The certificate is valid for a server of this name and for a client. */
  issue(name: string): Certificate;
}

export function createAuthority(): CertificateAuthority {
  const name = 'an authority of this test';
  const own = keyPair();
  const cert = encodeCertificate({
    issuer: name,
    subject: name,
    serial: 1,
    publicKey: own.publicKey,
    signWith: own.privateKey,
    extensions: [extension(BASIC_CONSTRAINTS, sequence(der(0x01, Buffer.of(0xff))), true)],
  });
  let serial = 1;
  return {
    cert,
    issue: (subject) => {
      const { publicKey, privateKey } = keyPair();
      const names = sequence(der(0x82, Buffer.from(subject, 'utf8')));
      const issued = encodeCertificate({
        issuer: name,
        subject,
        serial: (serial += 1),
        publicKey,
        signWith: own.privateKey,
        extensions: [extension(SUBJECT_ALT_NAME, names, false)],
      });
      return { cert: issued, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
    },
  };
}

function keyPair(): { publicKey: crypto.KeyObject; privateKey: crypto.KeyObject } {
  return crypto.generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
}

// The encoded object identifiers 2.5.29.19 and 2.5.29.17.
const BASIC_CONSTRAINTS = objectId('551d13');
const SUBJECT_ALT_NAME = objectId('551d11');

function extension(oid: Buffer, value: Buffer, critical: boolean): Buffer {
  return sequence(oid, ...(critical ? [der(0x01, Buffer.of(0xff))] : []), der(0x04, value));
}
