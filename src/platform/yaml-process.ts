import { parse } from 'yaml';
import { describeError } from './errors.js';

/** The process of `parseForeignYaml`: sends the value, or the parser's error, and waits to be ended. */

// As in PyYAML, the last value of a repeated key wins. Searching for repeated keys would take quadratic time.
const options = { logLevel: 'silent', uniqueKeys: false } as const;

export type Parsed = { value: unknown } | { name: string; message: string };

function parsed(text: string): Parsed {
  try {
    return { value: parse(text, options) };
  } catch (error) {
    return {
      name: error instanceof Error ? error.name : typeof error,
      message: describeError(error),
    };
  }
}

process.on('message', (text: string) => {
  process.send?.(parsed(text));
});
