import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { describeError } from '../../src/platform/errors.js';
import type { JsonObject } from '../../src/platform/json/lossless.js';
import { textsOf } from '../../src/platform/lines.js';
import { AGENT_REF } from '../keys.js';
import type { NewFile } from '../new-file.js';
import { writeNewFile } from '../new-file.js';
import { parseInputRow } from '../rows/input-row.js';
import type { Prompt } from '../rows/prompt.js';
import { applyPrompt, checkPromptFits, loadPrompt } from '../rows/prompt.js';
import { dumpJson } from '../../src/platform/python/json.js';
import type { Places } from '../config/search-roots.js';
import { resolveUnderRoots } from '../config/search-roots.js';
import { exists } from '../../src/platform/files.js';
import type { Dataset } from './datasets.js';

export interface Preparation extends Places {
  datasets: Dataset[];
  /** The output file. */
  file: string;
  say: (text: string) => void;
  signal: AbortSignal;
}

/**
 * Writes the rows of the data sets as upstream collates them (`TrainDataProcessor` at 07d6b0d): the benchmark's prompt
 * filled in, each row with its agent, repeated in place. The file appears completely or not at all. Nothing is
 * downloaded: missing files are one error, with the command that gets each.
 */
export async function prepareData({
  datasets,
  file,
  say,
  signal,
  ...places
}: Preparation): Promise<void> {
  await refuseMissing(datasets, places);
  await mkdir(path.dirname(file), { recursive: true });
  await writeNewFile(file, async (out) => {
    for (const dataset of datasets) {
      const { name, agent, num_repeats } = dataset;
      if (num_repeats > 1)
        say(`Dataset ${name} repeating ${num_repeats}x (in a pattern of abc to aabbcc)`);
      const rows = await writeRows(out, { dataset, places, signal });
      say(`Dataset ${name} for ${agent}: ${rows} rows`);
    }
  });
}

async function refuseMissing(datasets: Dataset[], places: Places): Promise<void> {
  const missing: string[] = [];
  for (const { name, agent, jsonl_fpath, how_to_get } of datasets) {
    const file = await resolveUnderRoots(jsonl_fpath, places);
    if (await exists(file)) continue;
    missing.push(
      `  - ${file}: dataset ${name} of ${agent}; ${how_to_get === null ? 'put it there' : `get it by: ${how_to_get}`}`,
    );
  }
  if (missing.length === 0) return;
  throw new Error(`data files are missing (nothing is downloaded here):\n${missing.join('\n')}`);
}

interface Writing {
  dataset: Dataset;
  places: Places;
  signal: AbortSignal;
}

/** The number of rows. */
async function writeRows(out: NewFile, { dataset, places, signal }: Writing): Promise<number> {
  const { jsonl_fpath, num_repeats, type, prompt_config } = dataset;
  const source = await resolveUnderRoots(jsonl_fpath, places);
  const prompt =
    type === 'benchmark' && prompt_config !== null ? await loadPrompt(prompt_config, places) : null;
  let line = 0;
  for await (const text of textsOf(source)) {
    signal.throwIfAborted();
    line += 1;
    const row = prepareRow(text, { dataset, prompt, where: `in '${source}' at line ${line}` });
    await out.write(`${dumpJson(row)}\n`.repeat(num_repeats));
  }
  return line * num_repeats;
}

interface RowPreparation {
  dataset: Dataset;
  prompt: Prompt | null;
  where: string;
}

function prepareRow(text: string, { dataset, prompt, where }: RowPreparation): JsonObject {
  const given = parseInputRow(text, where);
  const row = prompt === null ? given : withPrompt(given, { prompt, where });
  return { ...row, [AGENT_REF]: { type: 'responses_api_agents', name: dataset.agent } };
}

function withPrompt(
  row: JsonObject,
  { prompt, where }: { prompt: Prompt; where: string },
): JsonObject {
  try {
    checkPromptFits([row]);
    return applyPrompt(row, prompt);
  } catch (error) {
    throw new Error(`Row ${where}: ${describeError(error)}`, { cause: error });
  }
}
