import { z } from 'zod';

/**
 * A service's base URL. Paths are appended to it, and messages show it: hence no query and no credentials. The texts that
 * say "got" themselves keep the report from quoting a value that may be secret.
 */
export const BaseUrl = z.string().superRefine((text, context) => {
  const message = urlProblem(text);
  // Nothing else is said of one that may hold a secret.
  if (message !== null) context.addIssue({ code: 'custom', message, continue: false });
});

function urlProblem(text: string): string | null {
  const example = 'expected a URL such as http://127.0.0.1:9000';
  if (text.includes('@')) {
    return 'expected a URL without user name and password (some kinds have api_key_env), got one with';
  }
  if (!URL.canParse(text) || /\s/.test(text)) return example;
  const { protocol } = new URL(text);
  if (/[?#]/.test(text)) return 'expected a URL without query and fragment, got one with';
  return ['http:', 'https:'].includes(protocol) ? null : example;
}
