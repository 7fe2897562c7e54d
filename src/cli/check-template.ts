import { pino } from 'pino';
import { foreignObject, type ForeignObject } from '../model/foreign-object.js';
import { readJson } from '../platform/json/kept.js';
import { templateOf, templateProblem } from '../model/turn/template-check.js';
import { toMs } from '../model/workflow-safe/durations.js';
import { UsageError } from '../platform/command.js';
import { plain } from '../platform/plain.js';
import { createAllowance } from '../platform/waits/allowance.js';
import { loadConfig } from '../workers/config.js';
import { createPool } from '../workers/parts.js';
import { TEXT, optionsIn } from '../platform/arguments.js';
import { FILE, settingsNamed } from './settings-file.js';

const ROLES = ['user', 'tool', 'environment'] as const;
const PROMPTS = [['user'], ['system', 'user']] as const;
const LONGEST = '1m';

/** Reports, for each replica of a service and each role of observations, whether its chat template can be continued. */
export async function checkTemplateCommand(args: string[]): Promise<number> {
  const values = optionsIn(args, {
    service: { type: 'string', default: 'default' },
    model: TEXT,
    'template-kwargs': { type: 'string', default: '{}' },
    config: FILE,
  });
  const config = await loadConfig(values.config);
  const { service: name } = values;
  const { generation: among } = config;
  const settings = settingsNamed(name, { among, what: 'service', file: values.config });
  const chat_template_kwargs = kwargsOf(values['template-kwargs']);
  const log = pino({ level: 'silent' });
  const pool = createPool(
    { name, settings, config },
    { env: process.env, log, replies: createAllowance(0) },
  );
  const signal = AbortSignal.timeout(toMs(LONGEST));
  try {
    const [described] = await pool.describe(signal);
    const model = values.model ?? settings.model ?? described?.models[0]?.id ?? '';
    const told = await pool.askEach(async (service) => {
      const template = templateOf(service, { model, chat_template_kwargs, signal });
      const lines: string[] = [];
      for (const role of ROLES) lines.push(...(await linesFor(role, template)));
      return lines;
    }, signal);
    for (const { replica, answer } of told) {
      console.log(plain(`${replica}, model ${model}:`));
      for (const line of answer) console.log(plain(`  ${line}`));
    }
    const isContinued = (line: string): boolean => line.endsWith(EXACT);
    return told.every(({ answer }) => answer.some(isContinued)) ? 0 : 1;
  } finally {
    await pool.close();
  }
}

const EXACT = 'continued exactly';

async function linesFor(
  role: string,
  template: Parameters<typeof templateProblem>[1],
): Promise<string[]> {
  const lines: string[] = [];
  for (const prompt of PROMPTS)
    for (const thinks of [true, false]) {
      const conversation = { prompt, role, goes_on: true, thinks };
      const found = (await templateProblem(conversation, template)) ?? EXACT;
      lines.push(`${prompt.join(', ')} → ${role}${thinks ? ', with thinking' : ''}: ${found}`);
    }
  return lines;
}

function kwargsOf(text: string): ForeignObject {
  const { data } = foreignObject().safeParse(readJson(text));
  if (data !== undefined) return data;
  throw new UsageError(`--template-kwargs: expected a JSON object, got ${text}`);
}
