// Where a model address that an owner supplied may lead: out, over https, never into our own network. Asked at the door
// when the address is given, and by the worker before and while it connects.

import ipaddr from 'ipaddr.js';

/** All of public IPv6. What is outside of it is reserved, local, or carries an IPv4 address inside. */
const PUBLIC_IPV6 = ipaddr.IPv6.parseCIDR('2000::/3');
/** IETF protocol assignments: Teredo, ORCHID and others that are no hosts, of which the library knows some. */
const PROTOCOL_IPV6 = ipaddr.IPv6.parseCIDR('2001::/23');

/** Looks public and answers only inside a cloud: Azure's service for its own machines. */
const AZURE_HOST = '168.63.129.16';

/**
 * True for an address on the public internet. Private, loopback, link-local, metadata, multicast and reserved ranges are
 * not, nor IPv6 that carries an IPv4 address inside, nor what is no address at all.
 */
export function isPublicAddress(address: string): boolean {
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) {
    return ipaddr.IPv4.parse(address).range() === 'unicast' && address !== AZURE_HOST;
  }
  if (!ipaddr.IPv6.isValid(address)) return false;
  const parsed = ipaddr.IPv6.parse(address);
  return parsed.range() === 'unicast' && parsed.match(PUBLIC_IPV6) && !parsed.match(PROTOCOL_IPV6);
}

/** Names that never leave a network, or that a network gives to its own hosts. */
const INSIDE_NAME =
  /(^|\.)(localhost|local|localdomain|internal|intranet|lan|home|corp|private|home\.arpa|in-addr\.arpa|ip6\.arpa)$/;

/**
 * Why a normalised base URL may not be used as a company's own, or null. `allowed` holds the `host:port` entries that the
 * operator vouches for. Repeats nothing of the URL. What a name resolves to is asked when it is connected to.
 */
export function refuseOwnerAddress(normalizedUrl: string, allowed: readonly string[]): string | null {
  if (isAllowedHost(normalizedUrl, allowed)) return null;
  const url = new URL(normalizedUrl);
  if (url.protocol !== 'https:') return 'The base URL must be https.';
  // URL has written every spelling of an IPv4 address as four decimal numbers.
  const host = hostOf(url);
  const address = host.replace(/^\[|\]$/g, '');
  const isPublic = ipaddr.isValid(address) ? isPublicAddress(address) : host.includes('.') && !INSIDE_NAME.test(host);
  return isPublic ? null : 'The base URL must name a public host.';
}

/** True when the operator vouches for this model server, by `host:port` with the port it is really called at. */
export function isAllowedHost(normalizedUrl: string, allowed: readonly string[]): boolean {
  const url = new URL(normalizedUrl);
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  return allowed.some((entry) => entry.toLowerCase() === `${hostOf(url)}:${port}`);
}

/** A dot at a name's end changes nothing. */
function hostOf(url: URL): string {
  return url.hostname.toLowerCase().replace(/\.$/, '');
}
