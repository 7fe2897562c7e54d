import type { Json, JsonObject } from '../json/exact.js';
import { isObject } from '../json/exact.js';
import { namesOf } from '../../src/platform/json/order.js';
import { formatMap, MissingField } from '../python/format-map.js';
import { isTruthy, reprOf } from '../python/repr.js';
import { resolveUnderRoots } from '../config/search-roots.js';
import type { Places } from '../config/search-roots.js';
import { parseYaml } from '../config/yaml-text.js';
import { textOf } from '../../src/platform/utf8-text.js';
import { readWhole } from '../../src/platform/regular-file.js';

/** A prompt file: templates with `{field}` for a row's top-level fields. */
export interface Prompt {
  user: string;
  system: string | null;
}

/** `prompt_config`: a YAML file of `user` and perhaps `system`. */
export async function loadPrompt(file: string, places: Places): Promise<Prompt> {
  const resolved = await resolveUnderRoots(file, places);
  const bytes = await readWhole(resolved).catch((cause: unknown) => {
    const message = `Prompt config not found: '${file}'. Check the path is spelled correctly.`;
    throw new Error(message, { cause });
  });
  const value = parseYaml(textOf(bytes, resolved), resolved);
  const { user, system = null } = isObject(value) ? value : {};
  const text = (name: string, given: Json | undefined): string => {
    if (typeof given === 'string') return given;
    const got = given === undefined ? 'nothing' : reprOf(given);
    throw new Error(`Prompt config '${resolved}': ${name}: expected a template text, got ${got}`);
  };
  return { user: text('user', user), system: system === null ? null : text('system', system) };
}

/** A prompt and a row's own input exclude each other: one error lists all rows that have both, by index. */
export function checkPromptFits(rows: JsonObject[]): void {
  const violating = rows.flatMap((row, index) => {
    const params = row['responses_create_params'];
    return isObject(params) && isTruthy(params['input']) ? [index] : [];
  });
  if (violating.length === 0) return;
  throw new Error(
    'Some rows have responses_create_params.input but prompt_config is also specified. ' +
      `These are mutually exclusive. Use one or the other. Violating rows: [${violating.join(', ')}]`,
  );
}

/** The row with the filled templates as its `responses_create_params.input`; other fields stay. */
export function applyPrompt(row: JsonObject, prompt: Prompt): JsonObject {
  const messages: JsonObject[] = [];
  if (prompt.system !== null) messages.push({ role: 'system', content: fill(prompt.system, row) });
  messages.push({ role: 'user', content: fill(prompt.user, row) });
  const params = row['responses_create_params'];
  return {
    ...row,
    responses_create_params: { ...(isObject(params) ? params : {}), input: messages },
  };
}

function fill(template: string, row: JsonObject): string {
  try {
    return formatMap(template, row);
  } catch (error) {
    if (!(error instanceof MissingField)) throw error;
    const fields = reprOf(namesOf(row));
    const message = `Prompt template references field '${error.field}' but the data row only has fields: ${fields}`;
    throw new Error(message, { cause: error });
  }
}
