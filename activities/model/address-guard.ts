// Where a model address that an owner supplied may lead: out, never into our own network.

import ipaddr from 'ipaddr.js';

/**
 * True for an address on the public internet. Private, loopback, link-local, metadata, multicast and reserved ranges are
 * not, in IPv4, IPv6 or IPv4 mapped into IPv6; neither is what is no address at all.
 */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  return ipaddr.process(address).range() === 'unicast';
}

/** True when the operator allows this model server by `host:port`, as it stands in the address or with its default port. */
export function isAllowedHost(baseUrl: string, allowedHosts: readonly string[]): boolean {
  const url = new URL(baseUrl);
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  return allowedHosts.includes(url.host) || allowedHosts.includes(`${url.hostname}:${port}`);
}
