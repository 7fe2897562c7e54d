import type { ProgramTask } from '../environment.js';

/** `{prompt}` and the like in the arguments and variables of commands. Other braces stay as they are. */

export interface Filling extends Pick<ProgramTask, 'prompt' | 'base_url' | 'key'> {
  /** The working directory, as programs see it. */
  folder: string;
}

const NAMES = ['prompt', 'base_url', 'key', 'folder'] as const;
const PLACEHOLDER = new RegExp(`\\{(${NAMES.join('|')})\\}`, 'g');

/** A value that has braces itself is not filled again. */
export const filled = (text: string, filling: Filling): string =>
  text.replace(PLACEHOLDER, (_, name: (typeof NAMES)[number]) => filling[name]);

export const asksPolicy = (text: string): boolean => /\{(?:base_url|key)\}/.test(text);

/** The folder of temporal.yaml, filled when it is read. */
export const withHere = (text: string, directory: string): string =>
  text.replaceAll('{here}', directory);

/** By which clients of OpenAI and Anthropic find the policy. The latter add `/v1` themselves. */
export const variablesOf = ({ base_url, key }: Filling): Record<string, string> => ({
  OPENAI_BASE_URL: base_url,
  OPENAI_API_KEY: key,
  ANTHROPIC_BASE_URL: base_url.replace(/\/v1$/, ''),
  ANTHROPIC_API_KEY: key,
});
