// Where a company's own base URL may point: out, over https, to a host that is not one of ours. What its name resolves to
// is asked when it is connected to, by the worker; an address that is written out is refused here already.

import { BlockList, isIP } from 'node:net';

/** IPv4 that is not a public host: "this network", private, shared, loopback, link-local, documentation, multicast, … */
const INSIDE_V4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const;

/** Public IPv6 is in 2000::/3; of that, these carry an IPv4 address inside or are not hosts. */
const INSIDE_V6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const;

/** Names that never leave a network, or that a network gives to its own hosts. */
const INSIDE_NAME =
  /(^|\.)(localhost|local|localdomain|internal|intranet|lan|home|corp|private|home\.arpa|in-addr\.arpa|ip6\.arpa)$/;

const insideV4 = new BlockList();
for (const [net, prefix] of INSIDE_V4) insideV4.addSubnet(net, prefix, 'ipv4');
const insideV6 = new BlockList();
for (const [net, prefix] of INSIDE_V6) insideV6.addSubnet(net, prefix, 'ipv6');
const publicV6 = new BlockList();
publicV6.addSubnet('2000::', 3, 'ipv6');

/** True for an IP address that is not a public host's. */
export function isInsideAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return insideV4.check(address, 'ipv4');
    case 6:
      return !publicV6.check(address, 'ipv6') || insideV6.check(address, 'ipv6');
    default:
      return true;
  }
}

/**
 * Why a normalised base URL may not be used as a company's own, or null. `allowed` holds `host:port` entries that the
 * operator vouches for. Repeats nothing of the URL.
 */
export function refuseOwnerAddress(normalizedUrl: string, allowed: readonly string[]): string | null {
  const url = new URL(normalizedUrl);
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port;
  // URL has written every spelling of an IPv4 address as four decimal numbers; a dot at a name's end changes nothing.
  const host = url.hostname.toLowerCase().replace(/\.$/, '');
  if (allowed.some((entry) => entry.toLowerCase() === `${host}:${port}`)) return null;
  if (url.protocol !== 'https:') return 'The base URL must be https.';
  const address = host.startsWith('[') ? host.slice(1, -1) : host;
  const isInside = isIP(address) !== 0 ? isInsideAddress(address) : INSIDE_NAME.test(host) || !host.includes('.');
  return isInside ? 'The base URL must name a public host.' : null;
}
