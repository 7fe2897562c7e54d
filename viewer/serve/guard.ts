import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/**
 * Who may ask. Any page that a browser shows can send requests to this machine, and any name can be made to mean
 * 127.0.0.1. So a request has to name this server, come from its own page, and bring the token.
 *
 * A link from elsewhere, such as the Temporal Web UI, opens the page. The cookie is therefore `SameSite=Lax`: with
 * `Strict` a browser would keep it back there. It gives nothing away, because nothing here changes anything, and who
 * opens the page cannot read it.
 */
export type Verdict =
  | { kind: 'allowed' }
  | { kind: 'token' }
  | { kind: 'refused'; status: 401 | 403 | 405; why: string };

export interface Door {
  port: number;
  token: string;
}

/** Cookies do not distinguish ports, so its name does. */
const cookieName = (port: number): string => `rollouts_${port}`;

const MONTH_S = 30 * 86_400;

export const cookieOf = ({ port, token }: Door): string =>
  `${cookieName(port)}=${token}; HttpOnly; SameSite=Lax; Path=/; Max-Age=${MONTH_S}`;

export function judge(
  { method, headers }: Pick<IncomingMessage, 'method' | 'headers'>,
  { url, door }: { url: URL; door: Door },
): Verdict {
  const refused = (status: 401 | 403 | 405, why: string): Verdict => ({
    kind: 'refused',
    status,
    why,
  });
  const hosts = ['127.0.0.1', 'localhost'].map((name) => `${name}:${door.port}`);
  const { host = '', origin, cookie = '' } = headers;
  if (!hosts.includes(host))
    return refused(403, `expected a request to ${hosts.join(' or ')}, got another name`);
  if (origin !== undefined && origin !== `http://${host}`)
    return refused(403, 'expected a request of its own page, got one of another origin');
  if (method !== 'GET' && method !== 'HEAD')
    return refused(405, 'expected GET or HEAD: nothing is changed here');
  if (!isOwn(headers) && !(url.pathname === '/' && opensPage(headers)))
    return refused(403, 'expected a request of its own page, got one of another site');
  const token = url.pathname === '/' ? url.searchParams.get('token') : null;
  if (isSame(token ?? '', door.token)) return { kind: 'token' };
  if (isSame(cookieIn(cookie, cookieName(door.port)), door.token)) return { kind: 'allowed' };
  return refused(
    401,
    token === null
      ? 'This browser does not know the token of this server yet'
      : 'The token in this address is not that of this server: it is cut short, or of another store, or the token was made anew',
  );
}

type Headers = IncomingMessage['headers'];

/** What no browser sends says nothing of it. */
const isOwn = (headers: Headers): boolean =>
  ['same-origin', 'none', undefined].includes(headers['sec-fetch-site']);

const opensPage = (headers: Headers): boolean =>
  headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';

const cookieIn = (cookies: string, name: string): string =>
  cookies
    .split(';')
    .map((one) => one.trim())
    .find((one) => one.startsWith(`${name}=`))
    ?.slice(name.length + 1) ?? '';

function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
