import { reprOf } from '../../src/platform/python/repr.js';

const DEFAULT_MAX_ATTEMPTS = 3;

export interface MaxAttempts {
  max_attempts: number;
  /** What to say of a value that is no positive integer. */
  warning: string | null;
}

/** How many collections may fail a row, and how often each of them tries it: `NEMO_GYM_MAX_ROLLOUT_ATTEMPTS`, 3 where it is unset, empty or no positive integer. */
export function maxAttempts(env: Partial<Record<string, string>>): MaxAttempts {
  const raw = env['NEMO_GYM_MAX_ROLLOUT_ATTEMPTS'] ?? '';
  if (raw === '') return { max_attempts: DEFAULT_MAX_ATTEMPTS, warning: null };
  // Python's int(): blanks around, a sign, underscores between digits.
  const digits = /^\s*[+-]?\d+(?:_\d+)*\s*$/.test(raw) ? raw.replaceAll('_', '') : null;
  const count = digits === null ? null : Number(digits);
  if (count !== null && count >= 1) return { max_attempts: count, warning: null };
  const reason =
    count === null
      ? `invalid literal for int() with base 10: ${reprOf(raw)}`
      : `must be >= 1, got ${count}`;
  const warning =
    `WARNING: could not parse NEMO_GYM_MAX_ROLLOUT_ATTEMPTS=${reprOf(raw)} (${reason}); ` +
    `falling back to default ${DEFAULT_MAX_ATTEMPTS}.`;
  return { max_attempts: DEFAULT_MAX_ATTEMPTS, warning };
}
