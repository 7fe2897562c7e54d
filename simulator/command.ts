import { untilAborted } from '../src/platform/process/interrupts.js';
import { untilShutdown } from '../src/platform/process/lifeline.js';
import { lineOf, problemsOf } from '../src/model/problems.js';
import { parseYaml } from '../src/platform/yaml.js';
import { startSimulator } from './server.js';
import { SimulatorSettings } from './settings.js';
import { readText } from '../src/platform/utf8-text.js';
import { TEXT, integerOf, optionsIn } from '../src/platform/arguments.js';

export async function simulatorCommand(args: string[]): Promise<number> {
  const { port, settings } = await readOptions(args);
  const simulator = await startSimulator({ settings, port });
  console.log(`simulator of a vLLM server on ${simulator.url}/v1, model ${settings.model}`);
  await untilAborted(untilShutdown(process.env));
  await simulator.close();
  return 0;
}

/** Each setting is an option of its own, `--tokens-per-second` for `tokens_per_second`; values are read as YAML. */
async function readOptions(args: string[]): Promise<{ port: number; settings: SimulatorSettings }> {
  const names = Object.keys(SimulatorSettings.shape);
  const values = optionsIn(args, {
    port: { type: 'string', default: '8000' },
    settings: TEXT,
    config: TEXT,
    ...Object.fromEntries(names.map((name) => [optionOf(name), TEXT])),
  });
  const given: Record<string, unknown> = values;
  const path = values.settings;
  const file = path === undefined ? {} : (Object(parseYaml(await readText(path), path)) as object);
  const options = names
    .filter((name) => given[optionOf(name)] !== undefined)
    .map((name) => [name, parseYaml(String(given[optionOf(name)]), `--${optionOf(name)}`)]);
  const input = { ...file, ...Object.fromEntries(options) } as unknown;
  const parsed = SimulatorSettings.safeParse(input);
  if (!parsed.success) {
    const problems = problemsOf(parsed.error, input).map(lineOf);
    throw new Error(`simulator settings: ${problems.join('; ')}`);
  }
  return { port: integerOf('--port', { text: values.port, least: 0 }), settings: parsed.data };
}

const optionOf = (setting: string): string => setting.replaceAll('_', '-');
