import type { Problem } from '../../model/problems.js';

/** A session's cookies by name, as its server sets them on `/reset` and `/step`. */
export type Cookies = Record<string, string>;

/** Limit of all cookies: servers accept no more in a request's headers, and they are journalled at every turn. */
const MAX_BYTES = 8192;

/** The problem of too many cookies; null: none. */
export function cookiesProblem(cookies: Cookies): Problem | null {
  const bytes = Buffer.byteLength(cookieHeader(cookies).cookie ?? '');
  if (bytes <= MAX_BYTES) return null;
  return {
    where: 'set-cookie',
    what: `expected at most ${MAX_BYTES} bytes of cookies, got ${bytes}`,
  };
}

/**
 * Applies `set-cookie` lines: later ones replace earlier ones, and expired ones go. Attributes do not matter, since
 * there is one server.
 */
export function mergeCookies(cookies: Cookies, setCookies: readonly string[]): Cookies {
  const merged = new Map(Object.entries(cookies));
  for (const line of setCookies) {
    const [pair = '', ...attributes] = line.split(';').map((part) => part.trim());
    const at = pair.indexOf('=');
    if (at < 1) continue;
    const name = pair.slice(0, at);
    if (attributes.some(isExpiry)) merged.delete(name);
    else merged.set(name, pair.slice(at + 1));
  }
  return Object.fromEntries(merged);
}

function isExpiry(attribute: string): boolean {
  const [name = '', value = ''] = attribute.split('=');
  switch (name.toLowerCase()) {
    case 'max-age':
      return Number(value) <= 0;
    case 'expires':
      return Date.parse(value) <= 0;
    default:
      return false;
  }
}

/** The request's header; none without cookies. */
export function cookieHeader(cookies: Cookies): { cookie?: string } {
  const pairs = Object.entries(cookies).map(([name, value]) => `${name}=${value}`);
  return pairs.length === 0 ? {} : { cookie: pairs.join('; ') };
}

/**
 * Gym's session id, readable in the signed cookie (Starlette's: JSON in base64, time, signature); null: not such a
 * cookie.
 */
export function sessionIdIn(cookie: string): string | null {
  const [payload = ''] = cookie.split('.');
  try {
    const value = JSON.parse(Buffer.from(payload, 'base64').toString('utf8')) as unknown;
    const id = (value as { session_id?: unknown } | null)?.session_id;
    return typeof id === 'string' ? id : null;
  } catch {
    return null;
  }
}

/**
 * True if the server treated the rollout as a new one: a cookie that it can no longer read gets another session's id.
 */
export function isOtherSession(before: Cookies, after: Cookies): boolean {
  return Object.entries(before).some(([name, cookie]) => {
    const ids = [cookie, after[name] ?? ''].map(sessionIdIn);
    return ids[0] !== null && ids[1] !== null && ids[0] !== ids[1];
  });
}
