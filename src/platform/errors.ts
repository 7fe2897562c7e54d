import { withoutSecrets } from './secrets.js';

/** The text of anything thrown, with the causes that `fetch` and friends hide ("fetch failed"), and without secrets. */
export function describeError(error: unknown): string {
  const texts: string[] = [];
  let cause = error;
  // A chain may be long, or even a circle.
  for (let depth = 0; depth < 4 && cause instanceof Error; depth++) {
    const { message } = cause;
    // Many a message has its cause's in it.
    if (message !== '' && !texts.some((text) => text.includes(message))) texts.push(message);
    cause = cause.cause;
  }
  if (texts.length === 0) return withoutSecrets(String(error));
  return withoutSecrets(
    texts.reduce((text, next) => `${text}${/[.?!]$/.test(text) ? '' : ':'} ${next}`),
  );
}

/** A text from outside as messages quote it: without secrets, then without its end. */
export function shortened(text: string, characters: number): string {
  const whole = withoutSecrets(text);
  return whole.length > characters ? `${whole.slice(0, characters)}…` : whole;
}

/** Where an environment's own code threw it, as whoever called it was told; null: nobody told. */
export function traceIn(error: unknown): string | null {
  const { trace } = Object(error) as { trace?: unknown };
  return typeof trace === 'string' ? trace : null;
}
