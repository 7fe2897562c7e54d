import { z } from 'zod';
import { baseUrl } from '../platform/http/base-url.js';

/**
 * A service's base URL: every URL of temporal.yaml is read here. Paths are appended to it, and messages show it, so it
 * has no query and no credentials. The messages contain "got" themselves, which keeps the report from quoting a
 * possibly secret value.
 */
export const BaseUrl = z
  .string()
  .superRefine((text, context) => {
    const message = urlProblem(text);
    // A value that may contain a secret is not quoted.
    if (message !== null) context.addIssue({ code: 'custom', message, continue: false });
  })
  .transform(baseUrl);

function urlProblem(text: string): string | null {
  const example = 'expected a URL such as http://127.0.0.1:9000';
  if (text.includes('@')) {
    return 'expected a URL without user name and password (token_env or api_key_env names a token), got one with';
  }
  if (!URL.canParse(text) || /\s/.test(text)) return example;
  const { protocol } = new URL(text);
  if (/[?#]/.test(text)) return 'expected a URL without query and fragment, got one with';
  return ['http:', 'https:'].includes(protocol) ? null : example;
}
