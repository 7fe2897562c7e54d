import type { GenerationService } from '../../generation/generation-service.js';
import type { Remedies, WeightControl } from '../../generation/weight-control.js';
import type { GenerationServiceSettings } from '../generation-settings.js';
import type { Found } from './finding.js';
import { ok } from './finding.js';

export interface EngineToCheck {
  name: string;
  settings: GenerationServiceSettings;
  service: GenerationService;
  control: WeightControl;
  api_key: string | null;
  within_ms: number;
}

/** The version of an engine, and whether this program was tested with it. */
export function versionOf(version: string | null, { name, tested }: Remedies): string {
  if (version === null) return `${name} of a version that it does not say`;
  // A build says where it runs: 0.32.0+cpu.
  const [number = ''] = version.split('+');
  const others = tested.includes(number) ? '' : `, not tested: ${tested.join(' and ')} are`;
  return `${name} ${version}${others}`;
}

/** A line each. Nothing is wrong where it cannot: whoever wants it learns what the engine is to be started with. */
export async function abilitiesOf(
  { service, control, within_ms }: EngineToCheck,
  model: string,
): Promise<Found[]> {
  const bound = () => ({ within_ms, signal: AbortSignal.timeout(within_ms) });
  const { backend, sleep_levels, adapter_places } = await control.settings(bound());
  const can = async (needs: Parameters<WeightControl['examine']>[0]): Promise<boolean> =>
    (await control.examine(needs, bound())).lacks.length === 0;
  const { flags } = control.remedies;
  const takesAdapters =
    adapter_places !== 0 && (await can({ cache: 'keep', weights: { kind: 'lora' } }));
  const sleeps = sleep_levels?.length !== 0 && (await can({ cache: 'keep', sleep: 'able' }));
  const pictures = service.pictures?.refusal(model, bound().signal) ?? Promise.resolve('none');
  const abilities: [what: string, how: string | null, flag: string][] = [
    [
      'adapters that a trainer publishes',
      takesAdapters ? (adapter_places === null ? 'yes' : `${adapter_places} at once`) : null,
      flags.adapters,
    ],
    [
      'weights that a trainer sends',
      backend === 'none' ? null : (backend ?? 'it does not say'),
      flags.sent,
    ],
    ['sleep', sleeps ? 'yes' : null, flags.sleep],
    ['images', (await pictures) === null ? 'yes' : null, flags.images],
  ];
  return abilities.map(([what, how, flag]) => ok(`${what}: ${how ?? `no (${flag})`}`));
}
