import path from 'node:path';
import { didYouMean } from './known-keys.js';

/** The meaning of a flag of Gym's command line. */
type Flag =
  /** A field that takes the text as it is, or (`value`) like an override, or (`nothing`) becomes true. */
  | { field: string; takes: 'text' | 'value' | 'nothing' }
  | { meaning: 'no-serve' | 'verbose' | 'search-dir' | 'asset' | 'config' | 'own' };

const text = (field: string): Flag => ({ field, takes: 'text' });
const value = (field: string): Flag => ({ field, takes: 'value' });
const yes = (field: string): Flag => ({ field, takes: 'nothing' });

export type Flags = Record<string, Flag>;

const EVERYWHERE: Flags = {
  '--config': { meaning: 'config' },
  '--verbose': { meaning: 'verbose' },
  '-v': { meaning: 'verbose' },
};

/** Of 0.7.0, whose check of the results is not there. */
const HEALTH: Flags = {
  '--no-health-check': yes('disable_health_check'),
  '--health-check-workers': value('health_check_workers'),
  '--health-check-ignore': text('health_check_ignored_checks'),
};

/** `gym eval run` (upstream's cli/main.py at 07d6b0d, and what 0.7.0 adds). */
export const RUN_FLAGS: Flags = {
  ...EVERYWHERE,
  '--benchmark': { meaning: 'asset' },
  '--environment': { meaning: 'asset' },
  '--resources-server': { meaning: 'asset' },
  '--model-type': { meaning: 'asset' },
  '--agent-type': { meaning: 'asset' },
  '--search-dir': { meaning: 'search-dir' },
  '--no-serve': { meaning: 'no-serve' },
  '--resume': yes('resume_from_cache'),
  '--agent': text('agent_name'),
  '-a': text('agent_name'),
  '--input': text('input_jsonl_fpath'),
  '-i': text('input_jsonl_fpath'),
  '--output': text('output_jsonl_fpath'),
  '-o': text('output_jsonl_fpath'),
  '--limit': value('limit'),
  '--num-repeats': value('num_repeats'),
  '--prompt-config': text('prompt_config'),
  '--concurrency': value('num_samples_in_parallel'),
  '--split': text('split'),
  '--model': text('policy_model_name'),
  '-m': text('policy_model_name'),
  '--model-url': text('policy_base_url'),
  '--model-api-key': text('policy_api_key'),
  '--temperature': value('responses_create_params.temperature'),
  '--top-p': value('responses_create_params.top_p'),
  '--max-output-tokens': value('responses_create_params.max_output_tokens'),
  '--disable-aggregation': yes('disable_aggregation'),
  '--interleave-repeats': yes('interleave_repeats'),
  '--allow-unsupported-pairing': yes('allow_unsupported_pairing'),
  ...HEALTH,
};

export const AGGREGATE_FLAGS: Flags = {
  ...EVERYWHERE,
  '--search-dir': { meaning: 'search-dir' },
  '--input-glob': text('input_glob'),
  '-i': text('input_glob'),
  '--output': text('output_jsonl_fpath'),
  '-o': text('output_jsonl_fpath'),
  ...HEALTH,
};

export const PROFILE_FLAGS: Flags = {
  ...EVERYWHERE,
  '--inputs': text('materialized_inputs_jsonl_fpath'),
  '--rollouts': text('rollouts_jsonl_fpath'),
};

export interface CommandLine {
  /** In Hydra's form, flags first. */
  overrides: string[];
  search_dirs: string[];
  /** Named components whose configuration is looked up: `['benchmark', 'aime24']`. */
  assets: [kind: string, name: string][];
  /** `--config`: files of Gym's, or this project's temporal.yaml. */
  configs: string[];
  /** `--no-serve`: no server is started. */
  no_serve: boolean;
  /** Our own options, by name without dashes. */
  own: Partial<Record<string, string>>;
}

/**
 * `own`: further options that take a value and are not part of Gym's configuration. Unknown flags are an error with a
 * suggestion.
 */
export function readCommandLine(
  args: string[],
  { flags, own = [] }: { flags: Flags; own?: string[] },
): CommandLine {
  const known: Flags = { ...flags };
  for (const name of own) known[`--${name}`] = { meaning: 'own' };
  const line: CommandLine = {
    overrides: [],
    search_dirs: [],
    assets: [],
    configs: [],
    no_serve: false,
    own: {},
  };
  const plain: string[] = [];
  const rest = [...args];
  for (let argument = rest.shift(); argument !== undefined; argument = rest.shift()) {
    if (!argument.startsWith('-')) {
      plain.push(argument);
      continue;
    }
    const [, name = argument, attached] = /^(--[^=]+)=(.*)$/s.exec(argument) ?? [];
    const flag = known[name];
    if (flag === undefined) {
      const near = name.startsWith('--') ? didYouMean(name, Object.keys(known)) : '';
      throw new Error(`unrecognized argument ${name}${near}`);
    }
    const take = (): string => {
      const taken = attached ?? rest.shift();
      if (taken === undefined) throw new Error(`${name} needs a value`);
      return taken;
    };
    readFlag(flag, { line, name, take });
  }
  line.overrides.push(...plain);
  return line;
}

function readFlag(
  flag: Flag,
  { line, name, take }: { line: CommandLine; name: string; take: () => string },
): void {
  const bare = name.replace(/^-+/, '');
  if ('field' in flag) {
    const { field, takes } = flag;
    const given = takes === 'nothing' ? 'true' : takes === 'value' ? take() : quoted(take());
    line.overrides.push(`+${field}=${given}`);
  } else if (flag.meaning === 'own') line.own[bare] = take();
  else if (flag.meaning === 'no-serve') line.no_serve = true;
  else if (flag.meaning === 'config') line.configs.push(take());
  else if (flag.meaning === 'search-dir') line.search_dirs.push(take());
  else if (flag.meaning === 'asset') line.assets.push([bare, take()]);
}

/** Inverse of reading an override: backslashes count only before the quote. */
export const quoted = (text: string): string =>
  `'${text.replace(/(\\*)(')/g, '$1$1\\$2').replace(/\\+$/, '$&$&')}'`;

/** `NEMO_GYM_EXTRA_ROOTS`, after the search directories. */
export const withSearchDirs = (
  env: Partial<Record<string, string>>,
  search_dirs: string[],
): Partial<Record<string, string>> =>
  search_dirs.length === 0
    ? env
    : {
        ...env,
        NEMO_GYM_EXTRA_ROOTS: [...search_dirs, env['NEMO_GYM_EXTRA_ROOTS'] ?? '']
          .filter((root) => root !== '')
          .join(path.delimiter),
      };
