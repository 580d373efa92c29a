// What ggml's Vulkan backend names of VK_EXT_layer_settings, for Vulkan headers that do not have this extension yet
// (before 1.3.272). The layout is that of the C structs of the extension. Included before every C++ source of the build.
#pragma once

#include <cstdint>
#include <vector>

#include <vulkan/vulkan_core.h>

#ifndef VK_EXT_layer_settings

namespace vk {

enum class LayerSettingTypeEXT : int32_t {
    eBool32 = 0,
};

// VkLayerSettingEXT: one setting of a layer.
struct LayerSettingEXT {
    const char * pLayerName;
    const char * pSettingName;
    LayerSettingTypeEXT type;
    uint32_t valueCount;
    const void * pValues;
};

// VkLayerSettingsCreateInfoEXT: the settings that follow a VkInstanceCreateInfo. They must live as long as this.
struct LayerSettingsCreateInfoEXT {
    explicit LayerSettingsCreateInfoEXT(const std::vector<LayerSettingEXT> & settings)
        : settingCount(static_cast<uint32_t>(settings.size())), pSettings(settings.data()) {}

    // VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT
    int32_t sType = 1000496000;
    const void * pNext = nullptr;
    uint32_t settingCount;
    const LayerSettingEXT * pSettings;
};

static_assert(sizeof(LayerSettingEXT) == 4 * sizeof(void *), "the layout of VkLayerSettingEXT");
static_assert(sizeof(LayerSettingsCreateInfoEXT) == 4 * sizeof(void *), "the layout of VkLayerSettingsCreateInfoEXT");

} // namespace vk

#endif
