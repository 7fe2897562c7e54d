import type { Problem } from '../../model/problems.js';
import { isRecord, jsonIn } from '../../platform/json/object.js';

/** A session's cookies by name, as its server sets them on `/reset` and `/step`. */
export type Cookies = Record<string, string>;

/** Limit of all cookies: servers accept no more in a request's headers, and they are journalled at every turn. */
const MAX_BYTES = 8192;

export function cookiesProblem(cookies: Cookies): Problem | null {
  const bytes = Buffer.byteLength(cookieHeader(cookies).cookie ?? '');
  if (bytes <= MAX_BYTES) return null;
  return {
    where: 'set-cookie',
    what: `expected at most ${MAX_BYTES} bytes of cookies, got ${bytes}`,
  };
}

/** Applies `set-cookie` lines. Attributes but expiry do not matter, since there is one server. */
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

export function cookieHeader(cookies: Cookies): { cookie?: string } {
  const pairs = Object.entries(cookies).map(([name, value]) => `${name}=${value}`);
  return pairs.length === 0 ? {} : { cookie: pairs.join('; ') };
}

/** Gym's session id, readable in Starlette's cookie (JSON in base64, time, signature); null: another cookie. */
export function sessionIdIn(cookie: string): string | null {
  const [payload = ''] = cookie.split('.');
  const value = jsonIn(Buffer.from(payload, 'base64').toString('utf8'));
  const id = isRecord(value) ? value['session_id'] : null;
  return typeof id === 'string' ? id : null;
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
