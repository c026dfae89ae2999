import { runGroup } from './group';

runGroup('integration/properties', 1, 1);
