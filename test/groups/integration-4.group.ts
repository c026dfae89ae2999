import { runGroup } from './group';

runGroup('integration', 4, 6);
