// Rules for the address of a model that an owner supplied: a public host over https, never our own network. The API
// checks them when it gets the address, and the worker before and during the connection.

import ipaddr from 'ipaddr.js';

/** All public IPv6 addresses. Others are reserved, local, or contain an IPv4 address. */
const PUBLIC_IPV6 = ipaddr.IPv6.parseCIDR('2000::/3');
/** IETF protocol assignments: Teredo, ORCHID and others that are not hosts. The library knows only some of them. */
const PROTOCOL_IPV6 = ipaddr.IPv6.parseCIDR('2001::/23');

/** Azure's service for its own machines: the address looks public and is reachable only inside Azure. */
const AZURE_HOST = '168.63.129.16';

/**
 * True for an address on the public internet. False for private, loopback, link-local, metadata, multicast and reserved
 * ranges, for IPv6 that contains an IPv4 address, and for a text that is not an address.
 */
export function isPublicAddress(address: string): boolean {
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) {
    return ipaddr.IPv4.parse(address).range() === 'unicast' && address !== AZURE_HOST;
  }
  if (!ipaddr.IPv6.isValid(address)) return false;
  const parsed = ipaddr.IPv6.parse(address);
  return parsed.range() === 'unicast' && parsed.match(PUBLIC_IPV6) && !parsed.match(PROTOCOL_IPV6);
}

/** Names that exist only inside a network, or that a network gives to its own hosts. */
const INSIDE_NAME =
  /(^|\.)(localhost|local|localdomain|internal|intranet|lan|home|corp|private|home\.arpa|in-addr\.arpa|ip6\.arpa)$/;

/**
 * Why a company may not use this normalized base URL, or null. `allowed` holds the `host:port` entries that the
 * operator allows. The reason repeats nothing of the URL. The addresses of a name are checked when the worker connects.
 */
export function refuseOwnerAddress(normalizedUrl: string, allowed: readonly string[]): string | null {
  if (isAllowedHost(normalizedUrl, allowed)) return null;
  const url = new URL(normalizedUrl);
  if (url.protocol !== 'https:') return 'The base URL must be https.';
  // `URL` normalizes every spelling of an IPv4 address to four decimal numbers.
  const host = hostOf(url);
  const address = host.replace(/^\[|\]$/g, '');
  const isPublic = ipaddr.isValid(address) ? isPublicAddress(address) : host.includes('.') && !INSIDE_NAME.test(host);
  return isPublic ? null : 'The base URL must name a public host.';
}

/** True when the operator allows this model server, by `host:port` with the port that a request uses. */
export function isAllowedHost(normalizedUrl: string, allowed: readonly string[]): boolean {
  const url = new URL(normalizedUrl);
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  return allowed.some((entry) => entry.toLowerCase() === `${hostOf(url)}:${port}`);
}

/** The host in lower case, without the dot that may end a name. */
function hostOf(url: URL): string {
  return url.hostname.toLowerCase().replace(/\.$/, '');
}
