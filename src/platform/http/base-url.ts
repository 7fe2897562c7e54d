/**
 * A server's address as it names the server in journals and records, and as paths are appended to it: two spellings of
 * one address are one text, and it has no slash at its end. Throws for a text that is no URL.
 */
export function baseUrl(text: string): string {
  const { origin, pathname } = new URL(text);
  return `${origin}${pathname.replace(/\/{2,}/g, '/').replace(/\/$/, '')}`;
}
