import { withoutSecrets } from './secrets.js';
import { cut } from './utf8.js';

export function causesOf(error: unknown): Error[] {
  const found: Error[] = [];
  for (let e = error; found.length < 4 && e instanceof Error; e = e.cause) found.push(e);
  return found;
}

/** Of an error of the system, of Node or of a driver. */
export const codeOf = (error: unknown): unknown =>
  error instanceof Error && 'code' in error ? error.code : null;

/** The text of anything thrown, including the causes that `fetch` and others hide ("fetch failed"), without secrets. */
export function describeError(error: unknown): string {
  const texts: string[] = [];
  // Many messages already contain their cause's.
  for (const { message } of causesOf(error))
    if (message !== '' && !texts.some((text) => text.includes(message))) texts.push(message);
  if (texts.length === 0) return withoutSecrets(String(error));
  return withoutSecrets(
    texts.reduce((text, next) => `${text}${/[.?!]$/.test(text) ? '' : ':'} ${next}`),
  );
}

/** Text from outside, quoted for a message: secrets are removed first, then the end is cut. */
export const shortened = (text: string, characters: number): string =>
  cut(withoutSecrets(text), characters);

/** The place where an environment's own code threw the error, or null if it is unknown. */
export function traceIn(error: unknown): string | null {
  const { trace } = Object(error) as { trace?: unknown };
  return typeof trace === 'string' ? trace : null;
}
