/** Several lists have to know each field of `generation`. A new field does not compile before this table names its lists. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { checkImplemented } from '../../simulator/wire/request-limits.js';
import { unstamped } from '../../src/model/agent/placed-row.js';
import { ENGINE_FIELDS } from '../../src/model/engine-fields.js';
import { GenerationSettings } from '../../src/model/generation-settings.js';
import { refusalOfMode } from '../../src/model/logprobs-mode.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

/**
 * `engine`: sent to it (engine-fields.ts). `unstamped`: rows of NeMo Gym's agents have no place for it (placed-row.ts).
 * `reshapes`: raw logprobs are of another distribution (logprobs-mode.ts). `filter`: trainers whose loss has none refuse it
 * (python's sampling.py). `unsimulated`: the simulator does not do it (`NEUTRAL` of request-limits.ts).
 */
const LISTS = ['engine', 'unstamped', 'reshapes', 'filter', 'unsimulated'] as const;

const FIELDS: Record<keyof GenerationSettings, { other: unknown; on: string }> = {
  service: { other: 'b', on: '' },
  model: { other: 'm', on: 'engine' },
  temperature: { other: 0.5, on: 'engine reshapes' },
  top_p: { other: 0.5, on: 'engine reshapes filter' },
  top_k: { other: 5, on: 'engine unstamped reshapes filter' },
  min_p: { other: 0.1, on: 'engine unstamped reshapes filter' },
  max_new_tokens: { other: 7, on: 'engine' },
  stop_strings: { other: ['a'], on: 'engine unstamped' },
  stop_token_ids: { other: [1], on: 'engine unstamped' },
  greedy: { other: true, on: 'unstamped filter' },
  min_tokens: { other: 1, on: 'engine unstamped reshapes filter' },
  ignore_eos: { other: true, on: 'engine unstamped' },
  repetition_penalty: { other: 2, on: 'engine unstamped reshapes filter unsimulated' },
  presence_penalty: { other: 1, on: 'engine unstamped reshapes filter unsimulated' },
  frequency_penalty: { other: 1, on: 'engine unstamped reshapes filter unsimulated' },
  bad_words: { other: ['a'], on: 'engine unstamped reshapes filter unsimulated' },
  structured_outputs: { other: { regex: 'a' }, on: 'engine unstamped filter unsimulated' },
  seed: { other: 1, on: 'engine unstamped' },
  include_logprobs: { other: false, on: '' },
  logprobs_mode: { other: 'raw', on: '' },
  top_logprobs: { other: 2, on: 'engine' },
  prompt_logprobs: { other: true, on: 'engine' },
  prompt_format: { other: 'raw', on: '' },
  observation_format: { other: 'chat', on: '' },
  chat_template_kwargs: { other: { a: 1 }, on: '' },
};

const fields = Object.entries(FIELDS);
const generationWith = (field: string, value: unknown) =>
  GenerationSettings.parse({ [field]: value });

const python = readFileSync(
  path.join(PROJECT_ROOT, 'python/durable_rollouts/integrations/sampling.py'),
  'utf8',
);
const filters: string[] =
  /^FILTERS = \(([\s\S]*?)^\)/m.exec(python)?.[1]?.match(/(?<=")\w+(?=")/g) ?? [];

const isOn: Record<(typeof LISTS)[number], (field: string, other: unknown) => boolean> = {
  engine: (field) =>
    Object.values(ENGINE_FIELDS).some((fate) => 'setting' in fate && fate.setting === field),
  unstamped: (field, other) => unstamped(generationWith(field, other)).includes(field),
  reshapes: (field, other) =>
    refusalOfMode('raw', { generation: generationWith(field, other), replica: 'a' }) !== null,
  filter: (field) => filters.includes(field),
  unsimulated: (field, other) => {
    try {
      checkImplemented({ [field]: other });
      return false;
    } catch {
      return true;
    }
  },
};

for (const list of LISTS)
  test(`each field of generation is on the list "${list}", or is none of it`, () => {
    const named = fields.filter(([, { on }]) => on.split(' ').includes(list));
    const found = fields.filter(([field, { other }]) => isOn[list](field, other));
    const namesOf = (some: typeof fields): string[] => some.map(([field]) => field);
    assert.deepEqual(namesOf(found), namesOf(named));
  });
