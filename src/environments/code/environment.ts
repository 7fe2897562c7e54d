import { Fault } from '../../model/faults.js';
import type { Environment, Turn, TurnAnswer } from '../environment.js';
import { named } from '../environment.js';
import { environmentSays } from '../turn.js';
import { codeOf, observationOf, type MessageCode } from './format.js';
import type { Ran, RunRequest, Sandbox } from '../../sandbox/snippets/outcomes.js';
import { limitsOf, type CodeSettings } from './settings.js';
import { z } from 'zod';
import { nullIsAbsent } from '../../model/absent.js';
import { parsedInfo, rejected } from '../rejections.js';

const STOP_STRING = '</code>';

/** Upstream's code environment: the last message's code runs in the rollout's own interpreter, for reward 0. */
export function createCode(settings: CodeSettings, sandbox: Sandbox): Environment {
  return {
    step: (turn, { idempotency_key, deployment, signal }) => {
      const session = named(idempotency_key.replace(/\/[^/]*$/, ''), deployment);
      return answerTurn(turn, { settings, sandbox, session, signal });
    },

    health: async (signal) => {
      await sandbox.level(signal);
    },
    close: () => sandbox.close(),
  };
}

interface StepOf extends Pick<RunRequest, 'session' | 'signal'> {
  settings: CodeSettings;
  sandbox: Sandbox;
}

async function answerTurn(turn: Turn, step: StepOf): Promise<TurnAnswer> {
  const { settings, sandbox, session, signal } = step;
  const { message_log: log, metadata } = turn;
  const executed = executedTurns(turn, settings);
  const code = codeOf(log.at(-1)?.content ?? '', settings);
  const answered = { reward: 0, next_stop_strings: [STOP_STRING] };
  if (code === null) return { ...answered, observation: environmentSays(''), terminated: false };
  const limits = limitsOf(settings);
  const show = (ran: Ran, of: MessageCode) => {
    refuseRaised(ran);
    return observationOf(ran, { code: of, settings, limits });
  };
  const ran = await sandbox.run({
    ...{ session, signal, blocks: code.blocks },
    history: executed.map((turn) => turn.code.blocks),
    check: (at, again) => {
      const before = executed[at];
      if (before !== undefined) compare(before, show(again, before.code).content);
    },
  });
  const { content, evaluated } = show(ran, code);
  const observation = environmentSays(content);
  const terminated = evaluated && settings.terminate_on_evaluation;
  if ('killed' in ran) return { ...answered, observation, terminated };
  const messages = [...executed.map(({ message }) => message), log.length - 1];
  const executed_messages = { ...metadata, executed_messages: messages };
  return { ...answered, observation, terminated, metadata: executed_messages };
}

function refuseRaised(ran: Ran): void {
  const last = 'outcomes' in ran ? ran.outcomes.at(-1) : undefined;
  if (last?.status !== 'raises') return;
  const message = `code: ${last.type}: ${last.message}`;
  throw new Fault({ type: 'EnvironmentRejected', message });
}

const FOLDER = 'rollout-code-';

/** Addresses, the working directory's name and those of temporary files differ from process to process. */
const comparable = (text: string): string =>
  text
    .replaceAll(/0x[0-9a-f]{6,16}/g, '0x…')
    .replaceAll(/[^\s'"]+/g, withoutFolder)
    .replaceAll(/\btmp[a-z0-9_]{8}\b/g, 'tmp…');

/** Replaces a path that ends with such a folder; `run` has no spaces or quotes. */
function withoutFolder(run: string): string {
  const [begin, name] = [run.indexOf('/'), run.lastIndexOf(FOLDER)];
  if (begin === -1 || name < begin) return run;
  return `${run.slice(0, begin)}…${run.slice(name + FOLDER.length).replace(/^[A-Za-z0-9]+/, '')}`;
}

const QUOTED = 200;

function compare({ message, observation }: ExecutedTurn, again: string): void {
  if (comparable(observation) === comparable(again)) return;
  const quote = (text: string): string => JSON.stringify(text.slice(0, QUOTED));
  throw new Fault({
    type: 'StateLost',
    message: `code: the interpreter was lost, and the code of message ${message} gave another result when it ran again: expected ${quote(observation)}, got ${quote(again)}`,
  });
}

/** The state is the log, and which of its messages' code took effect: all that ran, and was not killed. */

const CodeMetadata = nullIsAbsent(
  z.looseObject({
    executed_messages: z.array(z.int().nonnegative()).default([]),
    /** Upstream's initial variables. Here code creates all variables. */
    context: z
      .record(z.string(), z.unknown())
      .refine((variables) => Object.keys(variables).length === 0, {
        error: 'expected none or an empty object, got variables',
      })
      .optional(),
  }),
);

interface ExecutedTurn {
  message: number;
  code: MessageCode;
  observation: string;
}

/** Throws `EnvironmentRejected` for metadata that does not fit the log. */
function executedTurns(
  { message_log: log, metadata }: Turn,
  settings: CodeSettings,
): ExecutedTurn[] {
  const { executed_messages: all } = parsedInfo(CodeMetadata, { name: 'code', info: metadata });
  return all.map((message, i) => {
    const code = codeOf(log[message]?.content ?? '', settings);
    const observation = log[message + 1];
    const isInOrder = i === 0 || (all[i - 1] ?? 0) < message;
    if (code === null || observation === undefined || !isInOrder) {
      const what = `expected messages with code, each followed by an observation, in order, got ${message} of ${log.length}`;
      const subject = 'code: extra_env_info of the sample';
      throw rejected({ subject, problems: [{ where: `executed_messages.${i}`, what }] });
    }
    return { message, code, observation: observation.content };
  });
}
