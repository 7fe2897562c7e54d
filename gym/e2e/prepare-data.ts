import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { describeError } from '../../src/platform/errors.js';
import type { JsonObject } from '../json/exact.js';
import { textsOf } from '../../src/platform/lines.js';
import { AGENT_REF } from '../keys.js';
import type { NewFile } from '../new-file.js';
import { writeNewFile } from '../new-file.js';
import { parseInputRow } from '../rows/input-row.js';
import type { Prompt } from '../rows/prompt.js';
import { applyPrompt, checkPromptFits, loadPrompt } from '../rows/prompt.js';
import { indentedJson } from '../../src/platform/json/indented.js';
import { dumpJson } from '../python/json.js';
import type { Places } from '../config/search-roots.js';
import { resolveUnderRoots } from '../config/search-roots.js';
import { exists } from '../../src/platform/files.js';
import type { DataMetrics } from './data-metrics.js';
import { createDataMetrics } from './data-metrics.js';
import { rowsOf, type Dataset } from './datasets.js';

export interface Preparation extends Places {
  datasets: Dataset[];
  /** The output file. */
  file: string;
  /** What went wrong when their scripts were run; null: nothing did, or none was. */
  tried: string | null;
  say: (text: string) => void;
  signal: AbortSignal;
}

/**
 * Writes the rows of the data sets as upstream collates them (`TrainDataProcessor` at 07d6b0d): the benchmark's prompt
 * filled in, each row with its agent, repeated in place; and beside them `<split>_metrics.json`. Each file appears
 * completely or not at all. Nothing is downloaded: missing files are one error, with the command that gets each.
 */
export async function prepareData({
  datasets,
  file,
  tried,
  say,
  signal,
  ...places
}: Preparation): Promise<void> {
  await refuseMissing(datasets, { tried, ...places });
  await mkdir(path.dirname(file), { recursive: true });
  const metrics = createDataMetrics();
  await writeNewFile(file, async (out) => {
    for (const dataset of datasets) {
      metrics.begin();
      const { name, agent, num_repeats } = dataset;
      if (num_repeats > 1)
        say(`Dataset ${name} repeating ${num_repeats}x (in a pattern of abc to aabbcc)`);
      const rows = await writeRows(out, { dataset, places, signal, metrics });
      say(`Dataset ${name} for ${agent}: ${rows} rows`);
    }
  });
  const { dir, name } = path.parse(file);
  const described = { ...datasets[0]?.described, ...metrics.result() };
  await writeNewFile(path.join(dir, `${name}_metrics.json`), (out) =>
    out.write(indentedJson(dumpJson(described), { width: 4 })),
  );
}

/** One error for all of them, before anything is written or started. */
async function refuseMissing(
  datasets: Dataset[],
  { tried, ...places }: Places & Pick<Preparation, 'tried'>,
): Promise<void> {
  const missing: string[] = [];
  const need = async (file: string, what: string): Promise<void> => {
    if (!(await exists(file))) missing.push(`  - ${file}: ${what}`);
  };
  for (const dataset of datasets) {
    const { name, agent, how_to_get } = dataset;
    const get = how_to_get === null ? 'put it there' : `get it by: ${how_to_get}`;
    await need(await rowsOf(dataset, places), `dataset ${name} of ${agent}; ${get}`);
    const prompt = promptOf(dataset);
    if (prompt !== null)
      await need(
        await resolveUnderRoots(prompt, places),
        `prompt of dataset ${name} of ${agent}; it comes with Gym: run in its checkout, or with --search-dir CHECKOUT`,
      );
  }
  if (missing.length === 0) return;
  const listed = missing.join('\n');
  const said = tried === null ? '' : `\n${tried}`;
  throw new Error(`data files are missing (nothing is downloaded here):\n${listed}${said}`);
}

/** Only a benchmark's counts. */
const promptOf = ({ type, prompt_config }: Dataset): string | null =>
  type === 'benchmark' ? prompt_config : null;

/** The number of rows. */
async function writeRows(
  out: NewFile,
  {
    dataset,
    places,
    signal,
    metrics,
  }: { dataset: Dataset; places: Places; signal: AbortSignal; metrics: DataMetrics },
): Promise<number> {
  const { num_repeats } = dataset;
  const source = await rowsOf(dataset, places);
  const template = promptOf(dataset);
  const prompt = template === null ? null : await loadPrompt(template, places);
  let line = 0;
  for await (const text of textsOf(source)) {
    signal.throwIfAborted();
    line += 1;
    const where = `in '${source}' at line ${line}`;
    const given = parseInputRow(text, where);
    // As upstream counts them: before the prompt makes the input.
    metrics.add(given, num_repeats);
    const row = prompt === null ? given : withPrompt(given, { prompt, where });
    const owned = { ...row, [AGENT_REF]: { type: 'responses_api_agents', name: dataset.agent } };
    await out.write(`${dumpJson(owned)}\n`.repeat(num_repeats));
  }
  return line * num_repeats;
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
