import { lookup as resolve } from 'node:dns';
import { BlockList, isIP } from 'node:net';
import type { LookupFunction } from 'node:net';

/** Which addresses a process may connect to, where others name them. */
export type Allowed = ReturnType<typeof allowedBy>;

export type AllowRule = { ports: string } & ({ cidr: string } | { host: string });

const MOST_PORTS = 65_535;

function rangeOf(ports: string): [first: number, last: number] {
  const [, first, last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(ports) ?? [];
  return [Number(first), Number(last)];
}

export function arePorts(text: string): boolean {
  const [first, last] = rangeOf(text);
  return first <= last && last <= MOST_PORTS;
}

function includes(ports: string, port: number): boolean {
  const [first, last] = rangeOf(ports);
  return first <= port && port <= last;
}

export function isCidr(text: string): boolean {
  const [address = '', prefix = '', ...more] = text.split('/');
  const family = isIP(address);
  const bits = family === 4 ? 32 : 128;
  const isPrefix = /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits;
  return family !== 0 && isPrefix && more.length === 0;
}

/** A star stands for one or more whole labels, at the beginning. */
export const isHost = (text: string): boolean =>
  labelsOf(text).every((label) => /^[a-z0-9-]+$/.test(label)) && isIP(text) === 0;

const labelsOf = (text: string): string[] => text.replace(/^\*\./, '').split('.');

const fits = (host: string, name: string): boolean =>
  host.startsWith('*.') ? name.endsWith(host.slice(1)) : name === host;

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4');

/** Its host without brackets, its port, and whether the host is an address. */
function partsOf(url: string): { host: string; port: number; isAddress: boolean } {
  const { hostname, port, protocol } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  const usual = protocol === 'https:' ? 443 : 80;
  return { host, port: port === '' ? usual : Number(port), isAddress: isIP(host) !== 0 };
}

function rangesOf(rules: readonly AllowRule[], port: number): BlockList {
  const ranges = new BlockList();
  for (const rule of rules) {
    if (!('cidr' in rule) || !includes(rule.ports, port)) continue;
    const [address = '', prefix] = rule.cidr.split('/');
    ranges.addSubnet(address, Number(prefix), familyOf(address));
  }
  return ranges;
}

/** A name is allowed by itself, or by the address that it leads to. `named`: URLs that always are. */
export function allowedBy(rules: readonly AllowRule[], named: readonly string[] = []) {
  const isNamed = (name: string, port: number): boolean =>
    rules.some((rule) => 'host' in rule && fits(rule.host, name) && includes(rule.ports, port));
  const hasRange = (port: number): boolean =>
    rules.some((rule) => 'cidr' in rule && includes(rule.ports, port));
  const expected = `expected what \`allow\` has (${rules.map(ruleText).join(', ') || 'nothing'})`;
  /** Why this URL is not allowed; null: it is, if its name leads to an address that is. */
  const refusal = (url: string): string | null => {
    if (named.includes(url)) return null;
    const { host, port, isAddress } = partsOf(url);
    const isAllowed = isAddress
      ? rangesOf(rules, port).check(host, familyOf(host))
      : isNamed(host, port) || hasRange(port);
    return isAllowed ? null : `${expected}, got ${host} port ${port}`;
  };
  /** Resolves the names that connections for this URL go to, to addresses that are allowed. */
  const lookupFor = (url: string): LookupFunction => {
    if (named.includes(url)) return resolve;
    const { port } = partsOf(url);
    const ranges = rangesOf(rules, port);
    return (...[name, options, done]) => {
      if (isNamed(name.replace(/\.$/, ''), port)) {
        resolve(name, options, done);
        return;
      }
      resolve(name, { ...options, all: true }, (error, found) => {
        if (error !== null) {
          done(error, '', 0);
          return;
        }
        const inside = found.filter(({ address }) => ranges.check(address, familyOf(address)));
        const [first] = inside;
        if (first === undefined) {
          const at = found.map(({ address }) => address).join(', ');
          done(new Error(`${expected}, got ${name}, which leads to ${at}`), '', 0);
        } else if (options.all === true) done(null, inside);
        else done(null, first.address, first.family);
      });
    };
  };
  return {
    refusal,
    lookupFor,
    /** `refusal`, and where the name leads to now. */
    refusalNow: async (url: string): Promise<string | null> => {
      const refused = refusal(url);
      const { host, isAddress } = partsOf(url);
      if (refused !== null || isAddress) return refused;
      return await new Promise((resolved) => {
        lookupFor(url)(host, { all: true }, (error) => {
          // A name that leads nowhere yet may be that of an engine that is starting.
          resolved(error === null || 'code' in error ? null : error.message);
        });
      });
    },
  };
}

const ruleText = (rule: AllowRule): string =>
  `${'cidr' in rule ? rule.cidr : rule.host} ports ${rule.ports}`;
